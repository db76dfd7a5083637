"""H10: a log that an unclean election has rewritten is another one, whatever its length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.protocol.epochs import diverged
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition
from breakglass.services.topic_backup.summary import EpochStart

ORDERS = TopicPartition("orders", 3)
CUT = 20
WANTED = (EpochStart(5, CUT - 1),)
"""The record before the cut was of epoch 5."""


def log(*ranges: tuple[int, int, int], start: int = 0) -> EpochHistory:
    return EpochHistory(tuple(EpochRange(*range_) for range_ in ranges), start)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(log((5, 0, 20)), id="nothing behind it"),
        pytest.param(log((3, 0, 12), (5, 12, 31)), id="more behind it"),
        pytest.param(log((5, 0, 24), (6, 24, 40)), id="another leader behind it"),
        pytest.param(log((5, 0, 20), (7, 20, 40)), id="another leader exactly behind it"),
        pytest.param(log((5, 19, 20), start=19), id="retention up to the record before it"),
        pytest.param(log((7, 25, 40), start=25), id="retention has passed it"),
        pytest.param(log(start=25), id="retention has taken everything"),
    ],
)
def test_h10_a_log_that_went_on_is_the_same(now: EpochHistory) -> None:
    assert diverged(ORDERS, WANTED, now) == ""


@pytest.mark.parametrize(
    ("now", "words"),
    [
        pytest.param(log((5, 0, 10), (6, 10, 20)), "epoch 6", id="the same length"),
        pytest.param(log(), "ends at 0", id="empty"),
    ],
)
def test_h10_a_log_that_was_cut_is_another_one(now: EpochHistory, words: str) -> None:
    reason = diverged(ORDERS, WANTED, now)
    assert words in reason
    assert "offset 19 of orders-3" in reason


def test_h10_records_in_transit_count_like_those_before_the_cut() -> None:
    wanted = (*WANTED, EpochStart(5, 25))
    assert "offset 25" in diverged(ORDERS, wanted, log((5, 0, 22), (6, 22, 40)))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_h10_whatever_was_cut_off_below_the_cut_is_noticed(
    lengths: list[int], data: st.DataObject
) -> None:
    """A log of several epochs, cut anywhere before the cut, and written to any length again."""
    ends = [sum(lengths[: number + 1]) for number in range(len(lengths))]
    starts = [0, *ends]
    cut = data.draw(st.integers(1, ends[-1]))
    held = log(*((number, starts[number], end) for number, end in enumerate(ends)))
    epoch = held.epoch_at(cut - 1)
    assert epoch is not None
    at = data.draw(st.integers(0, cut - 1))
    length = data.draw(st.integers(0, 2 * ends[-1]))
    kept = [
        (range_.epoch, range_.start, min(range_.end, at))
        for range_ in held.ranges
        if range_.start < at
    ]
    rewritten = [(99, at, at + length)] if length else []
    assert diverged(ORDERS, [EpochStart(epoch, cut - 1)], held) == ""
    assert diverged(ORDERS, [EpochStart(epoch, cut - 1)], log(*kept, *rewritten))
