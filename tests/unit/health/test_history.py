"""Counts since the start: bounded, with every peak, and with gaps where nothing was known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.health.counts import CAPACITY, History, PartitionCounts, Sample


def counts(offline: int) -> PartitionCounts:
    return PartitionCounts(100, offline, 0, offline)


def offline(sample: Sample) -> int:
    return sample.offline


def of(*values: int | None) -> History:
    """One look each second; None for one that failed."""
    history = History()
    for second, value in enumerate(values):
        now = second * 1_000
        history = history.missed(now) if value is None else history.counted(counts(value), now)
    return history


def test_before_the_first_look_there_is_no_line() -> None:
    assert History().line(offline, 10, 0) == []
    assert History().since_ms is None


def test_one_look_is_one_part_however_wide_the_line() -> None:
    assert of(7).line(offline, 40, 60_000) == [7]


def test_each_look_has_its_part_while_there_is_room() -> None:
    assert of(0, 3, 3, 1).line(offline, 10, 4_000) == [0, 3, 3, 1]


def test_a_part_shows_its_highest_count() -> None:
    assert of(0, 9, 1, 2, 0, 0).line(offline, 3, 6_000) == [9, 2, 0]


def test_a_part_without_a_look_repeats_what_was_before() -> None:
    history = of(5).counted(counts(1), 9_000).counted(counts(0), 10_000)
    assert history.line(offline, 3, 12_000) == [5, 5, 1]


def test_time_in_which_nothing_could_be_read_is_a_gap() -> None:
    assert of(4, None, None, None, 2).line(offline, 3, 5_000) == [4, None, 2]


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=4 * CAPACITY))
def test_memory_is_bounded_and_no_peak_is_lost(values: list[int | None]) -> None:
    history = of(*values)
    assert len(history.moments) <= CAPACITY
    assert history.peak(offline) == max((value for value in values if value is not None), default=0)
    assert history.since_ms == 0
    line = history.line(offline, 30, len(values) * 1_000)
    shown = [number for number in line if number is not None]
    assert max(shown, default=0) == history.peak(offline)
