"""Draws a whole comparison in a few cells, to show where the differences are."""

from __future__ import annotations

from dataclasses import dataclass, field

from breakglass.services.divergence.align import PairKind, Run
from breakglass.services.divergence.source import Extent, Same

CELLS = 512
"""Number of cells that are kept; a screen draws fewer."""
_RANK = {
    None: 0,
    PairKind.EQUAL: 1,
    PairKind.UNREAD: 2,
    PairKind.LEFT: 3,
    PairKind.RIGHT: 3,
    PairKind.DIFFERENT: 4,
}

Cell = PairKind | None
"""None: the cell was not compared yet, or has no entries."""


@dataclass
class Minimap:
    """The worst kind of pair in each part of *extent*."""

    extent: Extent
    cells: list[Cell] = field(default_factory=lambda: [None] * CELLS)

    def add(self, found: Run) -> None:
        """Add a pair, or a stretch at which both sides are the same."""
        if isinstance(found, Same):
            self._put(found.start, found.end, PairKind.EQUAL)
        else:
            self._put(found.offset, max(found.end, found.offset + 1), found.kind)

    def drawn(self, width: int) -> tuple[Cell, ...]:
        """The map in *width* cells, each with the worst kind of its part."""
        found: list[Cell] = []
        for number in range(width):
            first = number * CELLS // width
            last = max((number + 1) * CELLS // width, first + 1)
            cell: Cell = None
            for kind in self.cells[first:last]:
                cell = worse(cell, kind)
            found.append(cell)
        return tuple(found)

    def share(self, offset: int) -> float:
        """How far into the extent *offset* is: 0.0 to 1.0."""
        size = max(self.extent.end - self.extent.start, 1)
        return min(max((offset - self.extent.start) / size, 0.0), 1.0)

    def _put(self, start: int, end: int, kind: PairKind) -> None:
        """Add *kind* to every cell that overlaps ``[start, end)``."""
        size = max(self.extent.end - self.extent.start, 1)
        first = (start - self.extent.start) * CELLS // size
        last = ((end - self.extent.start) * CELLS - 1) // size
        for place in range(max(first, 0), min(last, CELLS - 1) + 1):
            self.cells[place] = worse(self.cells[place], kind)


def worse(one: Cell, other: Cell) -> Cell:
    """The worse of two cells; LEFT and RIGHT together are DIFFERENT."""
    if {one, other} == {PairKind.LEFT, PairKind.RIGHT}:
        return PairKind.DIFFERENT
    return one if _RANK[one] >= _RANK[other] else other
