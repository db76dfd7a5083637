"""Pages forward and back: every pair once, in order, in the room there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.divergence.align import RecordPair
from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.divergence.pages import PageLimits, page_before, page_from
from breakglass.services.divergence.source import Abandoned, Reading
from tests.unit.divergence.streams import (
    Edited,
    ListSource,
    compare,
    edited,
    entries,
    entry,
)

READING = Reading()
rooms = st.builds(PageLimits, pairs=st.integers(1, 9), bytes=st.integers(1, 200))


@given(edited(), rooms, st.integers(0, 45))
def test_paging_forward_meets_every_pair_once(made: Edited, room: PageLimits, at: int) -> None:
    comparison = compare(made.before, made.after)
    met: list[RecordPair] = []
    place = at
    while place < comparison.extent.end:
        page = page_from(comparison, place, READING, room)
        assert len(page.pairs) <= room.pairs
        assert page.end > place
        met += page.pairs
        place = page.end
    assert met == list(comparison.pairs(at, comparison.extent.end, READING))


@given(edited(), rooms, st.integers(0, 45))
def test_paging_back_meets_the_same_pairs(made: Edited, room: PageLimits, at: int) -> None:
    comparison = compare(made.before, made.after)
    met: list[RecordPair] = []
    place = min(at, comparison.extent.end)
    while place > comparison.extent.start:
        page = page_before(comparison, place, READING, room)
        assert len(page.pairs) <= room.pairs
        assert page.start < page.end == place
        met = [*page.pairs, *met]
        place = page.start
    assert met == list(comparison.pairs(0, at, READING))


def test_a_page_back_over_a_gap_reaches_what_lies_before_it() -> None:
    sparse = [*entries(0, 5), *entries(5_000_000, 5_000_003)]
    page = page_before(
        compare(sparse, sparse), 5_000_003, READING, PageLimits(pairs=5, bytes=10**6)
    )
    assert [pair.offset for pair in page.pairs] == [3, 4, 5_000_000, 5_000_001, 5_000_002]


def test_a_page_ends_where_its_bytes_do_but_has_one_pair() -> None:
    large = [entry(offset, b"v" * 600) for offset in range(10)]
    room = PageLimits(pairs=200, bytes=1_000)
    assert len(page_from(compare(large, large), 0, READING, room).pairs) == 1
    assert [pair.offset for pair in page_before(compare(large, large), 9, READING, room).pairs] == [
        8
    ]


def test_no_more_is_pulled_than_the_page_holds_and_one() -> None:
    comparison = compare(entries(0, 10_000), entries(0, 10_000))
    page_from(comparison, 50, READING, PageLimits(pairs=20, bytes=10**9))
    assert isinstance(comparison.left, ListSource)
    assert comparison.left.told <= 22


def test_a_page_before_the_first_address_is_empty() -> None:
    comparison = compare(entries(10, 20), entries(15, 20))
    assert page_before(comparison, 10, READING).pairs == ()
    assert page_from(comparison, 0, READING).start == 10


def test_two_empty_logs_have_an_empty_page() -> None:
    page = page_from(compare([], []), 0, READING)
    assert (page.start, page.end, page.pairs) == (0, 0, ())


def test_a_page_that_nobody_waits_for_is_given_up() -> None:
    read: list[RecordEntry] = entries(0, 100)
    steps = iter(range(30))

    def go_on() -> None:
        if next(steps) == 29:
            raise Abandoned

    with pytest.raises(Abandoned):
        page_from(compare(read, read), 0, Reading(go_on=go_on))
