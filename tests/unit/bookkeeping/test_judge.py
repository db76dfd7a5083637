"""The judge finds what is wrong, and nothing else: each check has an incident that only it sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from breakglass.bookkeeping.judge import check_said, missing_records
from breakglass.bookkeeping.log_files import NO_LOG
from breakglass.bookkeeping.said import SaidPartition, SaidPrice
from breakglass.bookkeeping.settings import ClusterState, changes
from tests.unit.bookkeeping.logs import ORDERS, log, reading, record, run, saved

SHORT = log(*run(0, 0, 10))
LONG = log(*run(0, 0, 15))
LATER = log(*run(0, 0, 10), *run(1, 10, 12))
"""Of a later epoch than `LONG`, from which it parts at 10."""
DISKS = reading({1: LATER, 2: LONG, 3: log(*run(0, 0, 20))}, 1, 2)
"""b3 is down, and holds more."""


def price(total: int | None, *, approximate: bool = False) -> SaidPrice:
    return SaidPrice(total, 0 if total is not None else None, total, approximate)


def judged(
    verdict: str = "LOSS",
    prices: Mapping[int, SaidPrice] | None = None,
    ends: Mapping[int, int] | None = None,
    unread: int | None = None,
    designee: int = 1,
) -> SaidPartition:
    """What a triage that is right says of `DISKS`."""
    return SaidPartition(
        ORDERS,
        verdict,
        f"elect b{designee}",
        designee,
        unread,
        prices if prices is not None else {1: price(5), 2: price(2)},
        ends if ends is not None else {1: 12, 2: 15},
        1,
    )


def kinds(*said: SaidPartition, gone: tuple[int, ...] = (3,), ever: int = 20) -> list[str]:
    return [finding.kind for finding in check_said(said, DISKS, {ORDERS: ever}, (), gone)]


def test_a_record_in_neither_log_nor_rescue_is_missing() -> None:
    readable = {1: LATER, 2: LONG}
    assert missing_records(readable, LATER, saved(*run(0, 10, 15)), compacted=False) == []
    (lost,) = missing_records(readable, LATER, saved(*run(0, 10, 14)), compacted=False)
    assert (lost.epoch, lost.offset) == (0, 14)


def test_neither_a_rescue_nor_a_log_holds_a_record_of_other_contents() -> None:
    other = replace(record(0, 14), digest="other")
    for elected, rescued in (
        (LATER, saved(*run(0, 10, 14), other)),
        (log(*run(0, 0, 14), other), frozenset()),
    ):
        lost = missing_records({2: LONG}, elected, rescued, compacted=False)
        assert [entry.offset for entry in lost] == [14]


def test_a_record_of_another_epoch_at_the_same_offset_is_another_record() -> None:
    lost = missing_records({2: LONG}, log(*run(1, 0, 15)), (), compacted=False)
    assert len(lost) == 15


def test_a_replaced_record_of_a_compacted_topic_is_not_missing() -> None:
    old, new = record(0, 0, "user"), record(0, 5, "user")
    holder = log(old)
    assert missing_records({2: holder}, log(new), (), compacted=True) == []
    assert missing_records({2: holder}, log(new), (), compacted=False) == [old]


def test_a_key_that_is_newer_on_the_other_side_of_a_fork_replaces_nothing() -> None:
    shared = record(0, 0, "other")
    cut, newer = record(1, 1, "user"), record(2, 5, "user")
    readable = {2: log(shared, cut)}
    assert missing_records(readable, log(shared, newer), (), compacted=True) == [cut]


def test_a_rescued_newer_record_of_the_same_log_replaces() -> None:
    old, new = record(1, 1, "user"), record(1, 3, "user")
    readable = {2: log(old, new)}
    assert missing_records(readable, NO_LOG, saved(new), compacted=True) == []
    assert missing_records(readable, NO_LOG, saved(old), compacted=True) == [new]
    assert missing_records(readable, NO_LOG, (), compacted=True) == [old, new]


def test_safe_is_unsafe_while_a_longer_log_is_unread_and_not_given_up() -> None:
    whole = judged("SAFE", {2: price(0)}, {2: 15}, designee=2)
    disks = reading({2: LONG, 3: log(*run(0, 0, 20))}, 2)
    assert [finding.kind for finding in check_said([whole], disks, {}, (), ())] == ["unsafe"]
    assert list(check_said([whole], disks, {}, (), (3,))) == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (judged(unread=5), []),
        (judged("SAFE"), ["unsafe"]),
        (judged(prices={1: price(4), 2: price(2)}), ["price"]),
        (judged(prices={1: price(5), 2: price(3)}), ["price"]),
        (judged(prices={1: price(None), 2: price(2)}), []),
        (judged(prices={1: price(9, approximate=True)}), []),
        (judged(prices={1: price(4, approximate=True)}), ["price"]),
        (judged(prices={1: SaidPrice(5, 3, 3, approximate=False)}), ["price"]),
        (judged(prices={1: SaidPrice(5, 3, 2, approximate=False)}), []),
        (judged(ends={1: 12, 2: 14}), ["price"]),
        (judged(unread=6), ["bound"]),
    ],
    ids=[
        *("what is right", "safe with a loss", "less than the loss", "more than the loss"),
        *("an unknown price", "approximate and above", "approximate and below"),
        *("parts that are no sum", "parts that are", "another log end", "more than ever was"),
    ],
)
def test_what_is_wrong_is_found_and_nothing_else(said: SaidPartition, found: list[str]) -> None:
    assert kinds(said) == found


def test_a_bound_is_compared_with_what_ever_existed() -> None:
    assert kinds(judged(unread=6), ever=21) == []


STATE = ClusterState(
    {"topic orders": {"min.insync.replicas": "1"}, "broker 1": {}},
    {ORDERS: (3, 1, 2)},
    {ORDERS: None},
)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (STATE, 0),
        (
            replace(STATE, configs={**STATE.configs, "topic orders": {"min.insync.replicas": "2"}}),
            1,
        ),
        (replace(STATE, configs={"topic orders": {}}), 1),
        (replace(STATE, orders={ORDERS: (1, 3, 2)}), 1),
    ],
    ids=["nothing changed", "another value", "a value is gone", "another order"],
)
def test_a_setting_or_an_order_that_is_not_as_it_was_is_found(
    after: ClusterState, found: int
) -> None:
    assert len(changes(STATE, after)) == found
