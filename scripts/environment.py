"""Make ``.venv`` what requirements/dev.txt says, or see at once that it is.

``python -m scripts.environment`` needs Python's standard library alone: neither pip nor venv.
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
from pathlib import Path

from scripts.find_uv import find_uv
from scripts.package_index import uv_settings
from scripts.uv_wheel import NoUv

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / "breakglass.stamp"
PYTHON = ENVIRONMENT / "bin" / "python"
INPUTS = ("pyproject.toml", "requirements/dev.txt", "scripts/environment.py")


def fingerprint() -> str:
    """Return the hash of what the environment is made from: files, interpreter, place."""
    digest = hashlib.sha256(f"{sys.version}\n{base_python()}\n{ROOT}\n".encode())
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def base_python() -> str:
    """Return the interpreter that runs this, seen through any environment it is in."""
    return str(getattr(sys, "_base_executable", sys.executable))


def ready() -> bool:
    """Whether the environment is there and was made from what is there now."""
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text() == fingerprint()


def make(uv: Path, environ: Mapping[str, str]) -> None:
    """Install exactly what is pinned, then the project itself as a link to this checkout."""
    settings = {**uv_settings(environ), **environ, "UV_PYTHON_DOWNLOADS": "never"}
    into = ("--python", str(PYTHON))

    def run(*arguments: str, quiet: bool = False) -> bool:
        command = [str(uv), *arguments, "--quiet"]
        done = subprocess.run(
            command, cwd=ROOT, env=settings, capture_output=quiet, check=not quiet
        )
        return done.returncode == 0

    STAMP.unlink(missing_ok=True)
    if not usable(PYTHON):
        run("venv", "--no-project", "--allow-existing", "--python", base_python(), ".venv")
    sync = ("pip", "sync", "--require-hashes", *into, "requirements/dev.txt")
    # From uv's cache if all of it is there: then a changed checkout needs no network either.
    if not run(*sync, "--offline", quiet=True):
        run(*sync)
    run(
        "pip", "install", "--no-deps", "--no-build-isolation", "--offline", *into, "--editable", "."
    )
    STAMP.write_text(fingerprint())


def usable(python: Path) -> bool:
    """Whether *python* runs and is of the version that runs this."""
    ask = "import sys; print(sys.version)"
    try:
        answer = subprocess.run([str(python), "-c", ask], capture_output=True, text=True)
    except OSError:
        return False
    return answer.stdout.strip() == sys.version.strip()


def main() -> int:
    """Make the environment if it is not ready; returns the exit code."""
    # Two makes at once, say of demo and test, take turns.
    with (ROOT / "pyproject.toml").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready():
            return 0
        try:
            uv = find_uv(os.environ)
            print("Installing the pinned packages into .venv", file=sys.stderr)
            make(uv, os.environ)
        except NoUv as problem:
            print(problem, file=sys.stderr)
            return 1
        except subprocess.CalledProcessError as problem:
            print("uv could not make .venv; what it said is above.", file=sys.stderr)
            return problem.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
