"""`breakglass diff`: what it prints, and how it ends."""

from pathlib import Path

import pytest

from tests.kit.program import Ended, breakglass
from tests.unit.console.conftest import Golden
from tests.unit.divergence.test_log_source import tens, write
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """Two backups: the second lacks offset 3 and has other values at 5 and 6, and a hostile one."""
    records = list(run(0, 10))
    left = back_up(tmp_path / "a", records)
    changed = [
        record._replace(value=b"\x1b]0;owned\x07") if record.offset in (5, 6) else record
        for record in records
    ]
    right = back_up(tmp_path / "b", [record for record in changed if record.offset != 3])
    return f"backup:{left}/0", f"backup:{right}/0"


def diff(*arguments: str) -> Ended:
    return breakglass("diff", *arguments)


def test_differences_are_printed_run_by_run_and_end_with_1(
    pair: tuple[str, str], golden: Golden
) -> None:
    ended = diff(*pair)
    assert (ended.code, "\x1b" in ended.out) == (1, False)
    golden(ended)


def test_json_is_one_document(pair: tuple[str, str]) -> None:
    document = diff(*pair, "--json").document
    assert (document["equal"], document["first"], document["not_decoded"]) == (False, 3, 3)
    totals = {"equal": 7, "left": 1, "right": 0, "different": 2, "unread": 0}
    assert document["totals"] == totals
    assert [(one["kind"], one["from"], one["to"]) for one in document["hunks"]] == [
        ("left", 3, 4),
        ("different", 5, 7),
    ]


def test_equal_sources_and_ranges_end_with_0_and_others_with_1(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    write(tmp_path / "orders-0", 0, tens(0, 30))
    whole = back_up(tmp_path / "whole", run(0, 30))
    for words, code in (
        ((pair[0], pair[0]), 0),
        ((f"log:{tmp_path}/orders-0", f"backup:{whole}/0"), 0),
        ((*pair, "--from", "7"), 0),
        ((*pair, "--to", "3"), 0),
        ((*pair, "--summary"), 1),
    ):
        assert diff(*words)[:2] == (code, ""), words
    assert diff(*pair, "--from", "4", "--to", "6").code == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("orders/0", "topic:orders/0"),
        ("topic:orders/0", "topic:clicks/0"),
        ("backup:/nowhere/orders/0", "log:/nowhere/orders-0"),
    ],
    ids=["no kind of source", "no offsets in common", "nothing there"],
)
def test_what_cannot_be_compared_ends_with_2(left: str, right: str) -> None:
    assert diff(left, right)[:2] == (2, "")
