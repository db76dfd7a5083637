"""The wheel holds what the program needs, and the program knows its version."""

import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from breakglass import __version__
from scripts import manual

ROOT = Path(__file__).parents[2]
PACKAGES = ("bookkeeping", "console", "screens", "services", "themes")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return zipfile.Path(file)


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: zipfile.Path) -> None:
    listed = ["git", "ls-files", *PACKAGES]
    tracked = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    names = tracked.stdout.split()
    assert [name for name in names if not wheel.joinpath("breakglass", name).exists()] == []
    name = f"breakglass-{__version__}"
    found = {entry.name for entry in wheel.iterdir()}
    assert found == {"breakglass", f"{name}.dist-info", f"{name}.data"}
    assert [entry.name for entry in wheel.joinpath(f"{name}.data").iterdir()] == ["data"]


def test_the_wheel_installs_the_man_page_and_the_completions(wheel: zipfile.Path) -> None:
    share = wheel.joinpath(f"breakglass-{__version__}.data", "data", "share")
    for name, content in manual.files().items():
        assert share.joinpath(name).read_text(encoding="utf-8") == content


def test_an_application_with_packages_of_these_names_imports_the_participant(
    wheel: zipfile.Path, tmp_path: Path
) -> None:
    installed = tmp_path / "installed"
    wheel.root.extractall(installed)
    (tmp_path / "services.py").write_text("MINE = True\n")
    probe = (
        "import services, sys; assert services.MINE; from breakglass.participant import run; "
        "print(run.__code__.co_filename, *(sys.modules.keys() & {'console', 'screens', 'themes'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (place,) = done.stdout.split()
    assert Path(place).is_relative_to(installed)


IMPORTED = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w., ]*$)", re.MULTILINE)
PROVIDERS = cache(packages_distributions)


def imports_of(file: Path) -> set[str]:
    """The top-level packages of others that *file* imports."""
    found = {one or other for one, other in IMPORTED.findall(file.read_text(encoding="utf-8"))}
    return found - sys.stdlib_module_names - {"breakglass", "benchmarks", "scripts", "tests"}


def declared() -> dict[str, set[str]]:
    """Return the distributions that pyproject.toml names: core, each extra, dev."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = {
        "core": project["project"]["dependencies"],
        **project["project"]["optional-dependencies"],
        "dev": project["dependency-groups"]["dev"],
    }
    return {
        group: {canonicalize_name(Requirement(requirement).name) for requirement in requirements}
        for group, requirements in groups.items()
    }


APART = {
    "console/web": {"core", "web"},
    "services/browse/schemas.py": {"core", "schemas"},
    "services/checkpoint/metrics.py": {"core", "web"},
    "services/class_data.py": {"core", "lab", "pipeline"},
    "services/lab": {"core", "lab"},
    "services/metastore/columns.py": {"core", "pipeline"},
    "services/monitoring": {"core", "web"},
    "services/pipeline": {"core", "pipeline"},
    "services/topic_backup/store/fsspec_blobs.py": {"core", "s3"},
}
"""Folders and files whose imports an extra brings."""


@pytest.mark.parametrize(
    ("place", "groups"),
    [
        *((name, {"core"}) for name in PACKAGES),
        *APART.items(),
        ("tests", {"core", "lab", "pipeline", "schemas", "web", "dev"}),
        ("benchmarks", {"core", "lab", "pipeline", "dev"}),
    ],
)
def test_everything_imported_is_declared(place: str, groups: set[str]) -> None:
    known = set().union(*(declared()[group] for group in groups))
    providers = PROVIDERS()
    apart = [ROOT / name for name in APART if name != place]
    files = [
        file
        for file in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
        if not any(file.is_relative_to(path) for path in apart)
    ]
    undeclared = {
        f"{file.relative_to(ROOT)} imports {package}"
        for file in files
        for package in imports_of(file)
        if not {canonicalize_name(name) for name in providers.get(package, [package])} & known
    }
    assert undeclared == set(), "declare it in pyproject.toml, then `make lock`"
