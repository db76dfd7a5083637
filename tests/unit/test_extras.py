"""A missing extra is one sentence that names what the command needs, before anything is done."""

import importlib.metadata
import json
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from breakglass.screens.refreshing import as_ours
from breakglass.services import extras
from breakglass.services.errors import MissingExtra
from breakglass.services.extras import EXTRAS
from tests.kit.bare_environment import BareEnvironment
from tests.kit.program import Ended

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
    "s3": [("backup", "list", "--store", "s3://bucket/backup")],
    "web": [
        ("serve", *NOWHERE),
        ("serve", "checkpoints", "--store", "store", "--topics", "orders", *NOWHERE),
    ],
}


HELP = [("--help",), ("lab", "up", "--help"), ("backup", "run", "--help")]
EVERY = [*(words for some in COMMANDS.values() for words in some), *HELP]
IN_TURN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from breakglass.console.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["breakglass", *words]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main()
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


class Bare(NamedTuple):
    """How each command ended where only `pip install breakglass` was run, and the folder there."""

    ended: dict[tuple[str, ...], Ended]
    folder: Path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    folder = tmp_path_factory.mktemp("empty")
    environment = BareEnvironment(tmp_path_factory.mktemp("bare") / "environment")
    done = environment.python(IN_TURN, json.dumps(EVERY), folder=folder)
    assert done.returncode == 0, done.stderr
    ended = [Ended(*json.loads(line)) for line in done.stdout.splitlines()]
    return Bare(dict(zip(EVERY, ended, strict=True)), folder)


@pytest.mark.parametrize(
    ("extra", "words"), [(extra, words) for extra, some in COMMANDS.items() for words in some]
)
def test_a_command_names_the_extra_that_it_lacks(
    bare: Bare, extra: str, words: tuple[str, ...]
) -> None:
    ended = bare.ended[words]
    assert (ended.code, ended.out, len(ended.said)) == (2, "", 1)
    assert f"'breakglass[{extra}]'" in ended.err


def test_a_command_that_lacks_an_extra_writes_nothing(bare: Bare) -> None:
    assert list(bare.folder.iterdir()) == []


def test_the_core_alone_has_help_for_every_command(bare: Bare) -> None:
    assert {bare.ended[words].code for words in HELP} == {0}


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


def test_a_screen_tells_of_the_extra_too() -> None:
    error = ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")
    assert isinstance(as_ours(error, "this step ended unexpectedly"), MissingExtra)


@pytest.mark.parametrize(
    ("sign", "url", "command"),
    [
        ("uv-receipt.toml", "file:///w.whl", "uv tool install --force '{} @ file:///w.whl'"),
        ("pipx_metadata.json", "", "pipx install --force '{}'"),
        ("pyvenv.cfg", "", f"{sys.executable} -m pip install '{{}}'"),
    ],
)
def test_the_command_is_that_of_what_installed_this_and_keeps_the_other_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str, url: str, command: str
) -> None:
    origin = SimpleNamespace(read_text=lambda _: json.dumps({"url": url} if url else None))
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: origin)
    (tmp_path / sign).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(extras, "lacking", lambda extra: () if extra == "web" else ("one",))
    assert extras.how_to_install("s3") == command.format("breakglass[s3,web]")
