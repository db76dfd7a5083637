"""Which Pythons the tests run on: those the project names, wherever this machine has them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import pythons
from scripts.portable_python import NoPython

PROGRAM = "#!{python}\nprint({version!r})\n"
MINORS = ["3.11", "3.12", "3.13", "3.14"]


def make_python(program: Path, version: str) -> Path:
    """A Python that says it is *version*, and does nothing else."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(PROGRAM.format(python=sys.executable, version=version))
    program.chmod(0o755)
    return program


@pytest.fixture
def nothing_to_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(minor: str, environ: object) -> Path:
        raise NoPython(f"no build of {minor}")

    monkeypatch.setattr(pythons, "portable_python", none)


@pytest.fixture
def machine(tmp_path: Path, nothing_to_fetch: None) -> dict[str, str]:
    """The environment of a machine that has no Python yet."""
    return {"PATH": str(tmp_path / "bin"), "PYENV_ROOT": str(tmp_path / "pyenv")}


def test_every_python_that_the_project_names_is_run() -> None:
    assert pythons.supported() == MINORS


def test_the_one_that_runs_this_is_among_them() -> None:
    assert f"3.{sys.version_info.minor}" in pythons.supported()


def test_one_on_the_path_comes_first(machine: dict[str, str], tmp_path: Path) -> None:
    there = make_python(tmp_path / "bin" / "python3.13", "3.13.9")
    make_python(tmp_path / "pyenv/versions/3.13.0/bin/python3.13", "3.13.0")
    assert pythons.interpreter("3.13", machine) == there


def test_a_shim_that_runs_nothing_is_passed_over(machine: dict[str, str], tmp_path: Path) -> None:
    make_python(tmp_path / "bin" / "python3.13", "")
    there = make_python(tmp_path / "pyenv/versions/3.13.0/bin/python3.13", "3.13.0")
    assert pythons.interpreter("3.13", machine) == there


def test_one_that_is_nowhere_is_named_and_fails_nothing(
    machine: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in machine.items():
        monkeypatch.setenv(name, value)
    assert pythons.main(["3.99"]) == 0
    assert "Python 3.99: not run: no build of 3.99" in capsys.readouterr().out


def test_one_whose_tests_fail_fails_the_run(
    machine: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in machine.items():
        monkeypatch.setenv(name, value)
    there = make_python(tmp_path / "bin" / "python3.13", "3.13.9")
    there.write_text(
        there.read_text() + "raise SystemExit('scripts.environment' in __import__('sys').argv)\n"
    )
    assert pythons.main(["3.13"]) == 1
    assert "Python 3.13: FAILED: its environment ended with 1" in capsys.readouterr().out


def test_no_version_is_begun_once_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert pythons.main(["3.13", "3.14", "--within=0"]) == 0
    assert capsys.readouterr().out.count("not run: no time was left") == 2


def test_only_the_newest_is_tested_where_that_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(minor: str, _arguments: list[str], *, tested: bool) -> pythons.Run:
        return pythons.Run(minor, True, "tested" if tested else "recovered")

    monkeypatch.setattr(pythons, "run", run)
    assert pythons.main(["3.12", "3.14", "--newest"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Python 3.12: passed: recovered",
        "Python 3.14: passed: tested",
    ]
    assert pythons.main(["3.12", "3.14"]) == 0
    assert "recovered" not in capsys.readouterr().out
