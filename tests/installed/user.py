"""A user with an empty home, who installs the wheel and runs the installed program.

The environment has what leads to package registries and to a terminal, and nothing else: no cache,
no configuration and no folder of this user or of this checkout.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.uv import find_uv, uv_settings
from tests.terminal.pty_terminal import PtyTerminal

INSTALLERS = ("uv", "pipx", "pip")
NETWORK = ("PIP_", "UV_", "SSL_", "REQUESTS_", "CURL_", "BREAKGLASS_MAVEN_")
"""What the names of variables begin with that lead to registries."""
PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"))
STEP_SECONDS = 3600.0
"""It only ends a hang; the first step that needs brokers downloads Kafka."""


class StepFailed(Exception):
    """What was run, and what it printed."""


class NewUser:
    """Has *home*, which is made, and reaches registries as *environ* says."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        home.mkdir()
        self.home = home
        self._uv = find_uv(environ)
        self._env = {
            **registry_variables(environ),
            **uv_settings(environ),
            "PATH": f"{home}/.local/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "UV_PYTHON_DOWNLOADS": "never",
        }
        if "JAVA_HOME" in environ:
            self._env["JAVA_HOME"] = environ["JAVA_HOME"]

    def install(self, wheel: Path, extras: str, installer: str) -> str:
        """Install *wheel* as a program of the user; returns its version."""
        wanted = f"breakglass[{extras}] @ {wheel.resolve().as_uri()}"
        python = str(getattr(sys, "_base_executable", sys.executable))
        if installer == "uv":
            self._done(str(self._uv), "tool", "install", "--python", python, wanted)
        elif installer == "pipx":
            pipx = (str(self._uv), "tool", "run", "--python", python, "pipx")
            self._done(*pipx, "install", "--python", python, wanted)
        else:
            programs = self.home / ".local"
            self._done(python, "-m", "venv", str(programs))
            self._done(str(programs / "bin" / "pip"), "install", wanted)
        return self.run("--version", saying="breakglass")

    def run(self, *words: str, saying: str, code: int = 0) -> str:
        """Run `breakglass` with *words*; returns the first line with *saying* in it.

        Raises:
            StepFailed: it ended with another *code*, or printed no such line.
        """
        done = self._done("breakglass", *words, code=code)
        for line in (done.stdout + done.stderr).splitlines():
            if saying in line:
                return " ".join(line.split())
        raise StepFailed(f"{' '.join(words)} printed no {saying!r}\n{done.stdout}{done.stderr}")

    def end_lab(self, folder: Path) -> None:
        """End the lab in *folder*, if there is one."""
        if folder.exists():
            self._done("breakglass", "lab", "down", "--state", str(folder))

    def json(self, *words: str) -> Any:
        """The document that `breakglass` with *words* prints. Raises StepFailed."""
        return json.loads(self._done("breakglass", *words).stdout)

    def look_at(self, bundle: Path) -> str:
        """Open the console on *bundle* in a terminal, and leave it; returns its first line."""
        command = (self.home / ".local" / "bin" / "breakglass", "open", bundle)
        try:
            with PtyTerminal(command, env=self._env, cwd=self.home) as terminal:
                terminal.wait_for("BUNDLE")
                terminal.wait_for("? help")
                header = terminal.lines[0].strip()
                terminal.press("q")
                code = terminal.exit_code()
                assert code == 0, f"it ended with {code}\n{terminal.text}"
        except AssertionError as failed:
            raise StepFailed(f"open: {failed}") from failed
        return header

    def _done(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        try:
            done = subprocess.run(
                words,
                cwd=self.home,
                env=self._env,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=STEP_SECONDS,
                # A program is looked for in the user's PATH rather than in this one's.
                executable=str(self.home / ".local" / "bin" / words[0])
                if words[0] == "breakglass"
                else None,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StepFailed(f"{' '.join(words)}: {error}") from error
        if done.returncode != code:
            raise StepFailed(
                f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done


def registry_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of *environ* that say how registries are reached."""
    return {
        name: text
        for name, text in environ.items()
        if name.upper() in PROXIES or name.startswith(NETWORK)
    }
