"""The wheel holds what the program needs, and the program knows its version."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from console import __version__

ROOT = Path(__file__).parents[2]
PACKAGES = ("console", "screens", "services", "themes")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return zipfile.Path(file)


def test_the_wheel_holds_every_file_of_the_packages(wheel: zipfile.Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True
    )
    missing = [name for name in tracked.stdout.split() if not wheel.joinpath(name).exists()]
    assert missing == []


def test_the_wheel_holds_nothing_else(wheel: zipfile.Path) -> None:
    found = {entry.name for entry in wheel.iterdir()}
    assert found == {*PACKAGES, f"breakglass-{__version__}.dist-info"}


def test_the_programs_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["scripts"]) == {
        "breakglass",
        "kafka-unclean-recovery",
        "kafka-elect-leaders",
    }
