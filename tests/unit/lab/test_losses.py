"""Losses are counted over sets of records; two logs that agree lose nothing to each other."""

from __future__ import annotations

from breakglass.services.lab.losses import Identity, count_choices
from breakglass.services.lab.truth import CountedLoss, Written


def records(epoch: int, start: int, end: int) -> set[Identity]:
    return {(epoch, offset) for offset in range(start, end)}


def written(epoch: int, start: int, end: int, *, committed: bool = True) -> Written:
    keys = tuple(f"r-{number}" for number in range(start, end))
    return Written(epoch, start, keys, "all" if committed else "1", committed, broker=1)


def test_replicas_with_the_same_records_lose_nothing() -> None:
    held = {1: records(0, 0, 9), 2: records(0, 0, 9)}
    assert count_choices(held, [1, 2], [written(0, 0, 9)]) == (
        CountedLoss(1, committed=0, uncommitted=0, unread=0, acked=0),
        CountedLoss(2, committed=0, uncommitted=0, unread=0, acked=0),
    )


def test_the_tails_past_a_divergence_are_lost_on_either_side() -> None:
    common = records(0, 0, 100)
    held = {2: common | records(1, 100, 150), 1: common | records(2, 100, 125)}
    history = [written(0, 0, 100), written(1, 100, 150, committed=False), written(2, 100, 125)]
    assert count_choices(held, [2, 1], history) == (
        CountedLoss(2, committed=25, uncommitted=0, unread=0, acked=25),
        CountedLoss(1, committed=0, uncommitted=50, unread=0, acked=50),
    )


def test_a_head_that_the_choice_no_longer_has_is_lost_too() -> None:
    held = {1: records(0, 40, 100), 2: records(0, 0, 90)}
    (first, second) = count_choices(held, [1, 2], [written(0, 0, 100)])
    assert (first.committed, second.committed) == (40, 10)


def test_records_on_replicas_that_cannot_be_read_are_counted_apart() -> None:
    held = {1: records(0, 0, 10), 2: records(0, 0, 5), 3: records(0, 0, 30)}
    (choice, _) = count_choices(held, [1, 2], [written(0, 0, 30)])
    assert choice == CountedLoss(1, committed=0, uncommitted=0, unread=20, acked=20)


def test_acknowledged_records_that_nobody_holds_any_more_are_still_missed() -> None:
    (choice,) = count_choices({1: set(), 2: set()}, [1], [written(0, 0, 7)])
    assert choice == CountedLoss(1, committed=0, uncommitted=0, unread=0, acked=7)
