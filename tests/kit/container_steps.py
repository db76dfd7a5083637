"""Runs the steps of a Containerfile in a folder, without a container runtime.

The folder stands for the root of the file system: each path that a step names is put below it. All
stages have the same root, one after the other, so that a path which the first writes into a file
leads to the same place in the second. The base is a Python with pip below `usr/local`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.uv import find_uv, pip_settings, uv_settings
from tests.installed.user import StepFailed, registry_variables
from tests.kit.containerfile import ROOT, Instruction, Stage
from tests.kit.waiting import DEADLINE_SECONDS

OWNERS = ("--owner=", "--group=")
"""Options that root alone may use."""
PLACE = re.compile(r"(^|[=:])(?=/(?!usr/bin\b|bin\b))")
"""Where a path of the image begins; the programs of the base are those of this machine."""


@dataclass
class Steps:
    """Runs stages below *folder*; what the last one has is at *root* then."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def build(self, built: Sequence[Stage]) -> None:
        """Run every step of *built*. Raises StepFailed."""
        python = str(getattr(sys, "_base_executable", sys.executable))
        local = self.folder / "base" / "usr" / "local"
        command = (find_uv(os.environ), "venv", "--quiet", "--seed", "--no-project")
        env = {**os.environ, **uv_settings(os.environ)}
        subprocess.run((*command, "--python", python, local), check=True, env=env)
        for number, stage in enumerate(built):
            if number:
                self.root.rename(self.folder / f"stage-{built[number - 1].name}")
            shutil.copytree(self.folder / "base", self.root, symlinks=True)
            self.env, self.workdir = {"PATH": "/usr/local/bin:/usr/bin:/bin"}, "/"
            for step in stage.steps:
                self._do(step)

    def run(self, *words: str, network: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command as the container would, with its variables and in its folder."""
        env = {name: self.at(value) for name, value in self.env.items()}
        words = tuple(self.at(word) for word in words)
        return subprocess.run(
            words,
            cwd=self.at(self.workdir),
            env={**env, **(_registries() if network else {})},
            executable=shutil.which(words[0], path=env["PATH"]),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=DEADLINE_SECONDS,
        )

    def at(self, text: str) -> str:
        """*text*, with its paths below the root."""
        return PLACE.sub(lambda match: f"{match[1]}{self.root}", text)

    def _do(self, step: Instruction) -> None:
        match step.word:
            case "WORKDIR":
                self.workdir = step.rest
                Path(self.at(step.rest)).mkdir(parents=True, exist_ok=True)
            case "ENV":
                path = self.env["PATH"]
                self.env |= {k: v.replace("${PATH}", path) for k, v in step.pairs().items()}
            case "COPY":
                self._copy(*step.copied())
            case "RUN":
                words = step.command()
                if os.geteuid():
                    words = [word for word in words if not word.startswith(OWNERS)]
                done = self.run(*words, network=True)
                if done.returncode:
                    raise StepFailed(f"{' '.join(words)}\n{done.stdout}{done.stderr}")

    def _copy(self, stage: str | None, sources: list[str], target: str) -> None:
        into = Path(self.at(self.workdir), self.at(target))
        for source in sources:
            origin = ROOT if stage is None else self.folder / f"stage-{stage}"
            found = origin / source.lstrip("/")
            # One file goes into a folder under its own name, a folder's content into the folder.
            named = into / found.name if target.endswith("/") and found.is_file() else into
            named.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__") if stage is None else None
                shutil.copytree(found, named, symlinks=True, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy2(found, named)


def _registries() -> dict[str, str]:
    """What leads pip to packages; what it has fetched before is not fetched again."""
    pip = {f"PIP_{k.upper().replace('-', '_')}": v for k, v in pip_settings(os.environ).items()}
    home = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/")) / ".cache"
    return {"PIP_CACHE_DIR": f"{home}/pip", **pip, **registry_variables(os.environ)}
