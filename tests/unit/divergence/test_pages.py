"""Pages of a comparison and the window that holds them."""

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.entry import Item, UnreadableRange
from breakglass.services.divergence.pages import (
    PageLimits,
    Window,
    page_before,
    page_from,
)
from breakglass.services.divergence.source import Reading
from tests.unit.divergence.streams import Edited, compare, edited, entries

READING = Reading()
rooms = st.builds(PageLimits, pairs=st.integers(1, 9), bytes=st.integers(1, 200))


@given(edited(), rooms, st.integers(0, 45))
def test_paging_either_way_meets_every_pair_once(made: Edited, room: PageLimits, at: int) -> None:
    comparison = compare(made.before, made.after)
    extent = comparison.extent
    met: list[RecordPair] = []
    place = at
    while place < extent.end:
        page = page_from(comparison, place, READING, room)
        assert len(page.pairs) <= room.pairs
        assert page.end > place
        met, place = met + list(page.pairs), page.end
    assert met == list(comparison.pairs(at, extent.end, READING))
    met, place = [], min(at, extent.end)
    while place > extent.start:
        page = page_before(comparison, place, READING, room)
        assert len(page.pairs) <= room.pairs
        assert page.start < page.end == place
        met, place = [*page.pairs, *met], page.start
    assert met == list(comparison.pairs(0, at, READING))


def test_damage_that_two_pages_split_is_one() -> None:
    damage: list[Item] = [*entries(0, 10), UnreadableRange(10, 30, "damaged"), *entries(30, 40)]
    comparison = compare(damage, [*entries(0, 10), *entries(30, 40)])
    window = Window(20, 20).below(page_from(comparison, 20, READING))
    window = window.above(page_before(comparison, 20, READING))
    (stretch,) = [pair for pair in window.pairs if pair.kind is PairKind.UNREAD]
    assert stretch.left == UnreadableRange(10, 30, "damaged")


@given(edited())
def test_runs_of_differences_that_are_held_are_found(made: Edited) -> None:
    comparison = compare(made.before, made.after)
    window = Window().below(page_from(comparison, 0, READING))
    kinds = [pair.kind for pair in window.pairs]
    begins = [
        place
        for place in range(1, len(kinds))
        if kinds[place] is not PairKind.EQUAL and kinds[place] is not kinds[place - 1]
    ]
    forward, place = [], 0
    while (found := window.next_run(place)) is not None:
        forward.append(found)
        place = found
    assert forward == begins
    back, place = [], len(kinds)
    while (found := window.previous_run(place)) is not None:
        back.append(found)
        place = found
    assert back == begins[::-1]
