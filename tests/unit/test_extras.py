"""A missing extra is one sentence that names what the command needs, before anything is done."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from breakglass.screens.refreshing import as_ours, in_words
from breakglass.services.errors import MissingExtra
from breakglass.services.extras import EXTRAS, in_vain
from tests.kit.bare_environment import BareEnvironment

ROOT = Path(__file__).parents[2]
NOWHERE = ("--bootstrap-server", "127.0.0.1:1")
"""Nothing listens there: who would have asked a broker first would say so."""
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "lab": [("demo", "--automatic"), ("drill", "--auto"), ("lab", "up")],
    "pipeline": [
        ("backup", "run", "--store", "backup", "--topics", "orders", *NOWHERE),
        ("backup", "restore", "--store", "backup", *NOWHERE),
        ("checkpoint", "take", "--store", "store", "--topics", "orders", *NOWHERE),
        ("checkpoint", "restore", "1", "--store", "store", *NOWHERE),
        ("checkpoint", "finish", "1", "--store", "store", *NOWHERE),
        ("checkpoint", "verify", "1", "--store", "store"),
    ],
    "s3": [("backup", "status", "--store", "s3://bucket/backup")],
    "web": [
        ("serve", *NOWHERE),
        ("checkpoint", "serve", "--store", "store", "--topics", "orders", *NOWHERE),
    ],
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    """What `pip install breakglass` installs."""
    return BareEnvironment(tmp_path_factory.mktemp("bare") / "environment")


@pytest.mark.parametrize(
    ("extra", "words"), [(extra, words) for extra, some in COMMANDS.items() for words in some]
)
def test_a_command_names_the_extra_that_it_lacks(
    bare: BareEnvironment, tmp_path: Path, extra: str, words: tuple[str, ...]
) -> None:
    done = bare.run(*words, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"pip install 'breakglass[{extra}]'" in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_core_alone_has_help_for_every_command(bare: BareEnvironment, tmp_path: Path) -> None:
    for words in (("--help",), ("lab", "up", "--help"), ("backup", "run", "--help")):
        assert bare.run(*words, folder=tmp_path).returncode == 0


def test_extras_are_those_of_the_project_with_all_that_they_bring() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    imported: dict[str, set[str]] = {}
    for package, owners in packages_distributions().items():
        for owner in owners:
            imported.setdefault(canonicalize_name(owner), set()).add(package)
    wanted = {
        extra: [imported[canonicalize_name(Requirement(one).name)] for one in needed]
        for extra, needed in project["optional-dependencies"].items()
    }
    assert EXTRAS.keys() == wanted.keys()
    for extra, brought in wanted.items():
        assert all(packages & set(EXTRAS[extra]) for packages in brought), extra


def test_what_no_extra_brings_is_no_missing_extra() -> None:
    assert in_vain(ModuleNotFoundError("No module named 'gone'", name="gone")) is None
    assert in_vain(ImportError("cannot import name")) is None


def test_a_screen_tells_of_the_extra_too() -> None:
    error = ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")
    assert isinstance(as_ours(error, "this step ended unexpectedly"), MissingExtra)
    assert re.search(r"pip install 'breakglass\[pipeline\]'", in_words(error, "it failed"))
