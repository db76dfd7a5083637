"""The judge finds what is wrong, and nothing else: each check has an incident that only it sees."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from breakglass.bookkeeping.judge import (
    SaidPartition,
    SaidPrice,
    SavedRecord,
    check_said,
    missing_records,
)
from breakglass.bookkeeping.log_files import NO_LOG, FolderLog, HeldRecord
from breakglass.bookkeeping.producer import ClusterState, changes
from tests.unit.bookkeeping.logs import ORDERS, log, reading, record, run, saved

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


OTHER = replace(record(0, 14), digest="other")


@pytest.mark.parametrize(
    ("elected", "rescued", "missing"),
    [
        (LATER, saved(*run(0, 10, 15)), []),
        (LATER, saved(*run(0, 10, 14)), [14]),
        (LATER, saved(*run(0, 10, 14), OTHER), [14]),
        (log(*run(0, 0, 14), OTHER), frozenset(), [14]),
        (log(*run(1, 0, 15)), frozenset(), list(range(15))),
    ],
    ids=["rescued", "in neither", "other contents", "elected with others", "another epoch"],
)
def test_a_record_in_neither_log_nor_rescue_is_missing(
    elected: FolderLog, rescued: frozenset[SavedRecord], missing: list[int]
) -> None:
    lost = missing_records({2: LONG}, elected, rescued, compacted=False)
    assert [entry.offset for entry in lost] == missing


OLD, NEW = record(1, 1, "user"), record(1, 3, "user")
FORKED = record(2, 5, "user")


@pytest.mark.parametrize(
    ("held", "elected", "rescued", "missing"),
    [
        ([record(0, 2, "user")], log(record(0, 5, "user")), frozenset(), []),
        ([OLD], log(FORKED), frozenset(), [OLD]),
        ([OLD, NEW], NO_LOG, saved(NEW), []),
        ([OLD, NEW], NO_LOG, saved(OLD), [NEW]),
        ([OLD, NEW], NO_LOG, frozenset(), [OLD, NEW]),
    ],
)
def test_in_a_compacted_topic_a_newer_record_of_the_same_log_replaces(
    held: list[HeldRecord],
    elected: FolderLog,
    rescued: frozenset[SavedRecord],
    missing: list[HeldRecord],
) -> None:
    shared = record(0, 0, "other")
    lost = missing_records(
        {2: log(shared, *held)},
        log(shared, *elected.records),
        saved(shared) | rescued,
        compacted=True,
    )
    assert lost == missing


@pytest.mark.parametrize(("rescued", "missing"), [((NEW,), []), ((), [OLD, NEW])])
def test_what_a_longer_log_compacted_is_replaced_by_what_a_rescue_has_of_that(
    rescued: tuple[HeldRecord, ...], missing: list[HeldRecord]
) -> None:
    first = record(1, 0, "other")
    short, long, elected = log(first, OLD), log(first, NEW), log(first)
    found = missing_records({2: short, 3: long}, elected, saved(first, *rescued), compacted=True)
    assert found == missing


def test_safe_is_unsafe_while_a_longer_log_is_unread_and_not_given_up() -> None:
    whole = judged("SAFE", {2: price(0)}, {2: 15}, designee=2)
    disks = reading({2: LONG, 3: log(*run(0, 0, 20))}, 2)
    assert [finding.kind for finding in check_said([whole], disks, {}, (), ())] == ["unsafe"]
    assert list(check_said([whole], disks, {}, (), (3,))) == []


def test_what_was_compacted_in_one_log_alone_is_no_loss_of_it() -> None:
    said = judged("LOSS", {1: price(0)}, {1: 4, 2: 2}, designee=1)
    disks = reading({1: log(NEW), 2: log(OLD)}, 1, 2)
    for compacted, found in (("orders",), []), ((), ["price"]):
        assert [one.kind for one in check_said([said], disks, {ORDERS: 4}, compacted, ())] == found


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


STATE = ClusterState(
    {"topic orders": {"min.insync.replicas": "1"}, "broker 1": {}},
    {ORDERS: (3, 1, 2)},
    {ORDERS: None},
)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({}, 0),
        ({"configs": {**STATE.configs, "topic orders": {"min.insync.replicas": "2"}}}, 1),
        ({"configs": {"topic orders": {}}}, 1),
        ({"orders": {ORDERS: (1, 3, 2)}}, 1),
    ],
    ids=["nothing changed", "another value", "a value is gone", "another order"],
)
def test_a_setting_or_an_order_that_is_not_as_it_was_is_found(after: Any, found: int) -> None:
    assert len(changes(STATE, replace(STATE, **after))) == found
