"""The map of the ZEP's terms: every module and every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "checkpoints-terms.md"
CODE = ROOT / "services" / "checkpoint"
ROW = re.compile(
    r"^\| (?P<term>.+?) \| .+ \| `(?P<module>[a-z_/]+\.py)` \| `(?P<test>test_\w+)` \|$"
)


def rows() -> list[re.Match[str]]:
    lines = PAGE.read_text("utf-8").splitlines()
    data = [line for line in lines if line.startswith("| ") and not line.startswith("| The ZEP")]
    found = [ROW.match(text) for text in data]
    assert all(found), [line for line, one in zip(data, found, strict=True) if one is None]
    return [match for match in found if match is not None]


@pytest.fixture(scope="module")
def defined() -> set[str]:
    """The names of all tests."""
    files = (ROOT / "tests").rglob("test_*.py")
    text = "\n".join(file.read_text("utf-8") for file in files)
    return set(re.findall(r"^\s*(?:async )?def (test_\w+)\(", text, re.MULTILINE))


def test_every_module_and_test_that_is_named_is_there(defined: set[str]) -> None:
    found = rows()
    assert [match["module"] for match in found if not (CODE / match["module"]).is_file()] == []
    gone = [match["test"] for match in found if match["test"] not in defined]
    assert gone == [], f"{PAGE.name} names tests that have another name by now"
