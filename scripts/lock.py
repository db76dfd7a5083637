"""Pin and hash every dependency: writes ``requirements/*.txt`` from pyproject.toml.

``python -m scripts.lock`` resolves again, keeping the pins that still fit; ``--upgrade`` takes
the newest; ``--check`` says, without a network, whether the files were made from the pyproject.toml
that stands beside them. The files record versions and hashes, never where they came from.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.uv import find_uv, uv_settings

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"

LOCKS = {
    "all.txt": ("pyproject.toml", "--all-extras", "--group", "dev"),
    "dev.txt": (
        *("pyproject.toml", "--extra", "lab", "--extra", "pipeline", "--extra", "s3"),
        *(
            "--extra",
            "schemas",
            "--extra",
            "web",
            "--group",
            "dev",
            "--constraints",
            "requirements/all.txt",
        ),
    ),
    "runtime.txt": (
        *("pyproject.toml", "--extra", "s3", "--extra", "schemas", "--extra", "web"),
        *("--constraints", "requirements/all.txt"),
    ),
    "runtime-java.txt": (
        *("pyproject.toml", "--all-extras", "--constraints", "requirements/all.txt"),
    ),
    "build.txt": ("requirements/build.in", "--constraints", "requirements/all.txt"),
    "uv.txt": ("requirements/uv.in",),
}
"""What each file is resolved from. ``dev.txt`` is what make installs, ``uv.txt`` what installs it;
``runtime.txt`` is what a container has, ``runtime-java.txt`` what it has where Java is wanted, and
``build.txt`` what makes the wheel there. ``all.txt`` holds every extra, and the others to its
versions."""
BY_HAND = ("build.in", "uv.in")
"""The inputs in ``requirements`` that are no part of pyproject.toml."""

OPTIONS = (
    *("--universal", "--generate-hashes", "--no-emit-index-url", "--no-emit-find-links"),
    *("--no-header", "--annotation-style", "line", "--quiet"),
)
HEADER = "# Made by `make lock`; do not edit.\n# From inputs with SHA-256 {digest}.\n"


def inputs_digest(root: Path = ROOT) -> str:
    """Return the SHA-256 of everything the locks are resolved from."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    inputs = [
        project["build-system"]["requires"],
        project["project"]["requires-python"],
        project["project"]["dependencies"],
        project["project"]["optional-dependencies"],
        project["dependency-groups"],
        *((root / "requirements" / name).read_text(encoding="utf-8") for name in BY_HAND),
    ]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def stale(root: Path = ROOT) -> list[str]:
    """Return the names of the lock files that are missing or made from other inputs."""
    header = HEADER.format(digest=inputs_digest(root))
    files = {name: root / "requirements" / name for name in LOCKS}
    return [
        name
        for name, file in files.items()
        if not (file.exists() and file.read_text(encoding="utf-8").startswith(header))
    ]


def resolve(uv: Path, name: str, *, upgrade: bool) -> None:
    """Write ``requirements/<name>``; raises CalledProcessError when nothing satisfies it."""
    target = REQUIREMENTS / name
    command = [str(uv), "pip", "compile", *LOCKS[name], *OPTIONS]
    command += ["--output-file", str(target.relative_to(ROOT)), *(["--upgrade"] * upgrade)]
    environ = {**os.environ, **uv_settings(os.environ)}
    subprocess.run(command, check=True, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL)
    pins = target.read_text(encoding="utf-8")
    target.write_text(HEADER.format(digest=inputs_digest()) + pins, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Resolve, or with ``--check`` compare; returns the exit code."""
    if "--check" in arguments:
        old = stale()
        if old:
            print(f"Out of date: {', '.join(old)}; run `make lock` and commit the result.")
        return bool(old)
    uv = find_uv(os.environ)
    for name in LOCKS:
        resolve(uv, name, upgrade="--upgrade" in arguments)
        print(f"requirements/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
