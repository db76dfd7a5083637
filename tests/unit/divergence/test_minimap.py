"""Where in a comparison what differs lies, in a few cells."""

from __future__ import annotations

from breakglass.services.divergence.align import PairKind
from breakglass.services.divergence.minimap import CELLS, Minimap, worse
from breakglass.services.divergence.source import Extent, Reading, Same
from tests.unit.divergence.streams import compare, entries


def test_the_worst_of_each_part_is_drawn() -> None:
    left = entries(0, 1_000)
    right = [entry for entry in entries(0, 1_000) if entry.offset != 500]
    comparison = compare(left, right)
    cells = Minimap(comparison.extent)
    for pair in comparison.pairs(0, 1_000, Reading()):
        cells.add(pair)
    drawn = cells.drawn(10)
    assert drawn == (*[PairKind.EQUAL] * 5, PairKind.LEFT, *[PairKind.EQUAL] * 4)
    assert cells.drawn(3 * CELLS).count(PairKind.LEFT) >= 1


def test_what_was_not_looked_at_is_not_known() -> None:
    cells = Minimap(Extent(100, 200))
    cells.add(Same(100, 150, 50))
    assert cells.drawn(4) == (PairKind.EQUAL, PairKind.EQUAL, None, None)
    assert (cells.share(100), cells.share(150), cells.share(900)) == (0.0, 0.5, 1.0)


def test_both_sides_alone_in_one_part_are_different() -> None:
    assert worse(PairKind.LEFT, PairKind.RIGHT) is PairKind.DIFFERENT
    assert worse(None, PairKind.EQUAL) is PairKind.EQUAL
    assert worse(PairKind.UNREAD, PairKind.EQUAL) is PairKind.UNREAD


def test_an_empty_comparison_has_an_empty_map() -> None:
    assert Minimap(Extent(5, 5)).drawn(3) == (None, None, None)
