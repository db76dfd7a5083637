"""Make ``.venv`` what requirements/dev.txt says, or see at once that it is.

``python -m scripts.environment`` needs Python's standard library alone: neither pip nor venv. With
a name it makes a second environment: ``python3.13 -m scripts.environment .venv-3.13``.
A stamp in the environment holds the hash of all that it was made from; while it fits, nothing is
run and no network is used. uv never downloads a Python here: it takes the one that runs this.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.uv import NoUv, find_uv, uv_settings

ROOT = Path(__file__).resolve().parent.parent
INPUTS = ("pyproject.toml", "requirements/dev.txt", "scripts/environment.py")


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder of this checkout with an interpreter and all packages in it."""

    name: str = ".venv"

    @property
    def python(self) -> Path:
        return ROOT / self.name / "bin" / "python"

    @property
    def stamp(self) -> Path:
        return ROOT / self.name / "breakglass.stamp"

    def ready(self) -> bool:
        """Whether it is there and was made from what is there now."""
        made = self.python.exists() and self.stamp.exists()
        return made and self.stamp.read_text() == fingerprint()


def fingerprint() -> str:
    """Return the hash of what the environment is made from: files, interpreter, place."""
    digest = hashlib.sha256(f"{sys.version}\n{base_python()}\n{ROOT}\n".encode())
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def base_python() -> str:
    """Return the interpreter that runs this, seen through any environment it is in."""
    return str(getattr(sys, "_base_executable", sys.executable))


def make(environment: Environment, uv: Path, environ: Mapping[str, str]) -> None:
    """Install exactly what is pinned, then the project itself as a link to this checkout."""
    settings = {**uv_settings(environ), **environ, "UV_PYTHON_DOWNLOADS": "never"}
    into = ("--python", str(environment.python))

    def run(*arguments: str, quiet: bool = False) -> bool:
        command = [str(uv), *arguments, "--quiet"]
        done = subprocess.run(
            command, cwd=ROOT, env=settings, capture_output=quiet, check=not quiet
        )
        return done.returncode == 0

    environment.stamp.unlink(missing_ok=True)
    if not usable(environment.python):
        new = ("venv", "--no-project", "--allow-existing", "--python", base_python())
        run(*new, environment.name)
    sync = ("pip", "sync", "--require-hashes", *into, "requirements/dev.txt")
    # From uv's cache if all of it is there: then a changed checkout needs no network either.
    if not run(*sync, "--offline", quiet=True):
        run(*sync)
    run(
        "pip", "install", "--no-deps", "--no-build-isolation", "--offline", *into, "--editable", "."
    )
    environment.stamp.write_text(fingerprint())


def usable(python: Path) -> bool:
    """Whether *python* runs and is of the version that runs this."""
    ask = "import sys; print(sys.version)"
    try:
        answer = subprocess.run([str(python), "-c", ask], capture_output=True, text=True)
    except OSError:
        return False
    return answer.stdout.strip() == sys.version.strip()


def main(*names: str) -> int:
    """Make the environment of that name if it is not ready; returns the exit code."""
    environment = Environment(*names)
    # Two makes at once, say of demo and test, take turns.
    with (ROOT / "pyproject.toml").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if environment.ready():
            return 0
        try:
            uv = find_uv(os.environ)
            print(f"Installing the pinned packages into {environment.name}", file=sys.stderr)
            make(environment, uv, os.environ)
        except NoUv as problem:
            print(problem, file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as problem:
            print(f"uv could not make {environment.name}; what it said is above.", file=sys.stderr)
            return problem.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
