"""Cut a release: the changelog's section, wheel, source distribution, SBOM and checksums.

``python -m scripts.release 0.1.0`` works on a clean checkout. It writes the version and the cut
changelog into the tree, and everything to publish into ``dist``. It commits, tags and publishes
nothing: the last line says what is left to do. The same commit gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.uv import find_uv, uv_settings

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
UNRELEASED = "## [Unreleased]\n"
SBOM_TOOL = "cyclonedx-bom==7.5.0"
SUMS = "SHA256SUMS"


class CannotRelease(Exception):
    """Why there is no release; the tree is as it was."""


def cut(changelog: str, version: str, date: str) -> str:
    """*changelog* with its unreleased section as that of *version*, under an empty one.

    Raises:
        CannotRelease: there is nothing to release, or the version was released.
    """
    before, found, after = changelog.partition(UNRELEASED)
    section, heading, older = after.partition("\n## [")
    section = re.sub(r"\nTo become [^\n]*\n", "\n", section).strip()
    if not found or not section:
        raise CannotRelease("CHANGELOG.md has nothing under Unreleased")
    if f"## [{version}]" in changelog:
        raise CannotRelease(f"CHANGELOG.md has a section of {version} already")
    return f"{before}{UNRELEASED}\n## [{version}] - {date}\n\n{section}\n{heading}{older}"


def with_version(source: str, version: str) -> str:
    """The package's own module with that version."""
    return re.sub(r'__version__ = "[^"]+"', f'__version__ = "{version}"', source)


def checksums(folder: Path) -> str:
    """The SHA-256 of each file in *folder*, as `sha256sum -c` reads them."""
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(folder.iterdir())
        if file.name != SUMS
    )


def _run(*words: str, env: Mapping[str, str] | None = None) -> str:
    """Run a command in the tree; returns what it prints."""
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise CannotRelease(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(dist: Path, moment: str) -> None:
    """Make the wheel and the source distribution, with *moment* as the time of every file."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": moment}
    for target in ("wheel", "sdist"):
        words = (sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(dist))
        _run(*words, env=env)


def write_sbom(target: Path, version: str, moment: str) -> None:
    """Write what an installation with every extra brings, as CycloneDX: versions and hashes."""
    uv, env = str(find_uv(os.environ)), {**os.environ, **uv_settings(os.environ)}
    with tempfile.TemporaryDirectory() as folder:
        pins, bom = Path(folder) / "runtime.txt", Path(folder) / "bom.json"
        options = ("--universal", "--generate-hashes", "--no-header", "--no-emit-index-url")
        constraints = ("--constraints", "requirements/all.txt", "--output-file", str(pins))
        _run(
            uv, "pip", "compile", "pyproject.toml", "--all-extras", *options, *constraints, env=env
        )
        tool = (uv, "tool", "run", "--from", SBOM_TOOL, "cyclonedx-py", "requirements", str(pins))
        _run(
            *tool, "--pyproject", "pyproject.toml", "--output-reproducible", "-o", str(bom), env=env
        )
        document: dict[str, Any] = json.loads(bom.read_text(encoding="utf-8"))
    document["metadata"]["component"]["version"] = version
    document["metadata"]["timestamp"] = datetime.fromtimestamp(int(moment), UTC).isoformat()
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def release(version: str, dist: Path) -> None:
    """Cut *version*. Raises: CannotRelease."""
    if not VERSION.fullmatch(version):
        raise CannotRelease(f"{version} is no version: write 1.2.3, 1.2.3rc1")
    if _run("git", "status", "--porcelain"):
        raise CannotRelease("the checkout has changes: commit them first")
    dist.mkdir(exist_ok=True)
    if any(dist.iterdir()):
        raise CannotRelease(f"{dist} is not empty: move away what is in it")
    moment = _run("git", "log", "-1", "--format=%ct").strip()
    date = f"{datetime.fromtimestamp(int(moment), UTC):%Y-%m-%d}"
    changelog, package = ROOT / "CHANGELOG.md", ROOT / "breakglass" / "__init__.py"
    section = cut(changelog.read_text(encoding="utf-8"), version, date)
    changelog.write_text(section, encoding="utf-8")
    package.write_text(with_version(package.read_text(encoding="utf-8"), version), encoding="utf-8")
    _run(sys.executable, "-m", "scripts.manual")
    build(dist, moment)
    write_sbom(dist / f"breakglass-{version}.cdx.json", version, moment)
    (dist / SUMS).write_text(checksums(dist), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Cut the version that is named; returns the exit code."""
    if len(arguments) != 1:
        print("Name the version: make release VERSION=0.1.0", file=sys.stderr)
        return 2
    (version,) = arguments
    try:
        release(version, ROOT / "dist")
    except CannotRelease as error:
        print(error, file=sys.stderr)
        return 1
    print((ROOT / "dist" / SUMS).read_text(encoding="utf-8"), end="")
    print(f"Left to do: git commit -am 'Release {version}' && git tag -s v{version}, then publish.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
