"""Sentences of a triage, each with disks on which it is true and others on which it is not."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from breakglass.bookkeeping.sentences import TriageFacts, check_rescued, check_sentences, unjudged
from tests.unit.bookkeeping.logs import ORDERS, log, reading, run

DISKS = reading({1: log(*run(0, 0, 10)), 2: log(*run(0, 0, 15))}, 1)
"""b1 was read, and b2 is down and has more."""


@pytest.mark.parametrize(
    ("text", "true", "false"),
    [
        ("No partition is offline.", 0, 1),
        ("Start b2: 1 of 1 comes back whole.", 1, 2),
        ("Elect: 0 of 1 lose nothing that is readable.", 1, 2),
        ("b2 is out of sync in 3 partitions that others lead", 1, None),
    ],
)
def test_a_sentence_is_held_against_what_was_so(text: str, true: int, false: int | None) -> None:
    assert not wrong(text, [ORDERS] * true)
    assert false is None or wrong(text, [ORDERS] * false)


def test_only_what_has_all_that_can_be_read_brings_it_back_whole_without_a_condition() -> None:
    assert wrong("Start b3: 1 of 1 comes back whole.", [ORDERS])
    assert not wrong("Start b3: 1 of 1 comes back whole if its unread disk lost nothing.", [ORDERS])
    assert not wrong("Start b3: 0 of 1 come back whole.", [ORDERS])
    assert wrong("b2 is out of sync in 4 partitions that others lead", [ORDERS])


def test_a_claim_that_no_pattern_knows_is_handed_back() -> None:
    said = "b3 is safe to start: 4 partitions\n12 records are put back\nread again\n"
    assert list(unjudged(said)) == ["12 records are put back"]


def test_so_many_records_are_rescued_as_are_in_the_folder() -> None:
    said = "orders-0  rescued 23 records of b6: /rescues/b6/orders/0"
    assert not list(check_rescued(said, {"/rescues/b6/orders/0": 23}.__getitem__))
    assert list(check_rescued(said, lambda _: 22))


def wrong(text: str, offline: Collection[tuple[str, int]]) -> bool:
    return bool(list(check_sentences(text, TriageFacts(offline, DISKS, (), {2: 3}))))
