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
TERMS = (
    "coordinator",
    "BackupActor",
    "SnapshotDirector",
    "SnapshotStoreActor",
    "StreamProcessor",
    "Backup Store",
    "`checkpoint:create`",
    "`checkpoint:created`",
    "`checkpoint:ignored`",
    "follow-up",
    "takeBackup",
    "processedPosition",
    "lastWrittenPosition",
    "checkpointPosition",
    "log stream",
    "segments",
    "lock",
    "unlock",
    "aborts",
    "backup id, checkpoint id",
    "forced checkpoint",
    "basic checkpoint",
    "replay",
    "compaction",
    "failover",
    "acknowledgement",
    "monitor",
)


def rows() -> list[re.Match[str]]:
    lines = PAGE.read_text("utf-8").splitlines()
    data = [one for one in lines if one.startswith("| ") and not one.startswith("| The ZEP")]
    found = [ROW.match(one) for one in data]
    assert all(found), [line for line, one in zip(data, found, strict=True) if one is None]
    return [one for one in found if one is not None]


@pytest.fixture(scope="module")
def defined() -> set[str]:
    """The names of all tests."""
    files = (ROOT / "tests").rglob("test_*.py")
    text = "\n".join(one.read_text("utf-8") for one in files)
    return set(re.findall(r"^\s*(?:async )?def (test_\w+)\(", text, re.MULTILINE))


def test_every_module_and_test_that_is_named_is_there(defined: set[str]) -> None:
    found = rows()
    assert [one["module"] for one in found if not (CODE / one["module"]).is_file()] == []
    gone = [one["test"] for one in found if one["test"] not in defined]
    assert gone == [], f"{PAGE.name} names tests that have another name by now"


@pytest.mark.parametrize("term", TERMS)
def test_every_term_of_the_zep_has_a_row(term: str) -> None:
    assert any(term in one["term"] for one in rows())
