"""Finds, forward and back, and the record of a moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.browse.finding import first_at, next_match, previous_match
from breakglass.services.browse.query import parse_query
from breakglass.services.divergence.align import Alone, Comparison
from breakglass.services.divergence.entry import RecordEntry, UnreadableRange
from breakglass.services.divergence.source import Abandoned, Reading
from tests.unit.divergence.streams import TIME, ListSource, entries, entry

READING = Reading()


def unheard(_: int) -> None:
    """Nobody listens."""


@given(
    st.sets(st.integers(0, 299), max_size=5),
    st.sets(st.integers(0, 299), max_size=60),
    st.integers(-1, 301),
)
def test_exactly_the_next_and_the_previous_are_found(
    wanted: set[int], gone: set[int], at: int
) -> None:
    items = [entry(number, b"wanted" if number in wanted else b"v") for number in range(300)]
    source = ListSource([item for item in items if item.offset not in gone])
    comparison, query = Alone(source), parse_query("value:wanted")
    there = wanted - gone
    after = next_match(comparison, query, at, READING, unheard)
    before = previous_match(comparison, query, at, READING, unheard)
    assert after == min((number for number in there if number > at), default=None)
    assert before == max((number for number in there if number < at), default=None)


def test_either_side_can_have_it() -> None:
    left, right = entries(0, 10), [*entries(0, 5), entry(5, b"wanted"), *entries(6, 10)]
    comparison = Comparison(ListSource(left), ListSource(right, "b2"))
    assert next_match(comparison, parse_query("wanted"), 0, READING, unheard) == 5


def test_a_search_tells_how_far_it_is_and_can_be_ended() -> None:
    told: list[int] = []
    comparison = Alone(ListSource(entries(0, 2_000)))
    assert next_match(comparison, parse_query("nowhere"), 0, READING, told.append) is None
    assert told == sorted(told)
    assert len(told) > 5

    def abandon() -> None:
        raise Abandoned

    with pytest.raises(Abandoned):
        previous_match(comparison, parse_query("x"), 900, Reading(go_on=abandon), unheard)


def test_a_moment_is_found_by_halves() -> None:
    source = ListSource([*entries(0, 50), UnreadableRange(50, 60, "why"), *entries(60, 100)])
    for offset in (0, 1, 49, 61, 99):
        assert first_at(source, TIME + offset, READING) == offset
    # What cannot be read may hold it.
    assert first_at(source, TIME + 60, READING) == 50
    assert first_at(source, 0, READING) == 0
    assert first_at(source, TIME + 1_000, READING) == 100
    assert len(source.asked) < 80


def test_records_without_a_time_are_passed_over() -> None:
    items: list[RecordEntry | UnreadableRange] = [
        one._replace(timestamp=None) for one in entries(0, 10)
    ]
    source = ListSource([*items, *entries(10, 20)])
    assert first_at(source, TIME + 15, READING) == 15
