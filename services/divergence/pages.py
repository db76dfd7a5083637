"""A comparison page by page, forward and back from any address, in bounded memory and time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from breakglass.services.divergence.align import RecordPair
from breakglass.services.divergence.comparison import Comparison
from breakglass.services.divergence.source import Reading

FIRST_BLOCK = 4
"""Addresses that are read first when a page is read backwards; blocks then grow."""
GROWTH = 4


@dataclass(frozen=True, slots=True)
class PageLimits:
    """How much one page may take."""

    pairs: int
    bytes: int
    """Of the entries as the sources have them: what is read for a page, not what is held."""


PAGE = PageLimits(pairs=200, bytes=8 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class PairPage:
    """Everything that both sides have in ``[start, end)``."""

    start: int
    end: int
    pairs: tuple[RecordPair, ...]


def page_from(
    comparison: Comparison, at: int, reading: Reading, room: PageLimits = PAGE
) -> PairPage:
    """The page that begins at *at*: up to the room there is; at least one pair, if any follows."""
    extent = comparison.extent
    start = max(at, extent.start)
    taken = _Taken(room)
    for pair in comparison.pairs(start, extent.end, reading):
        if not taken.fits(pair):
            return PairPage(start, pair.offset, tuple(taken.pairs))
        taken.pairs.append(pair)
    return PairPage(start, max(start, extent.end), tuple(taken.pairs))


def page_before(
    comparison: Comparison, at: int, reading: Reading, room: PageLimits = PAGE
) -> PairPage:
    """The page that ends before *at*, up to the room there is.

    Reads in growing steps, because only reading tells how many entries an address range holds.
    """
    end = start = min(at, comparison.extent.end)
    taken = _Taken(room)
    for block in blocks_before(comparison, end, reading, room):
        for pair in reversed(block.pairs):
            if not taken.fits(pair):
                return PairPage(start, end, tuple(taken.pairs))
            taken.pairs.appendleft(pair)
            start = pair.offset
        start = block.start
    return PairPage(start, end, tuple(taken.pairs))


class _Taken:
    """Pairs of a page that grows at either end."""

    def __init__(self, room: PageLimits) -> None:
        self.pairs: deque[RecordPair] = deque()
        self._room = room
        self._size = 0

    def fits(self, pair: RecordPair) -> bool:
        """Whether there is room for *pair*, which the caller then takes; the first always fits."""
        self._size += pair.size
        if not self.pairs:
            return True
        return len(self.pairs) < self._room.pairs and self._size <= self._room.bytes


def blocks_before(
    comparison: Comparison, at: int, reading: Reading, room: PageLimits = PAGE, down_to: int = 0
) -> Iterator[PairPage]:
    """What lies in ``[down_to, at)``, block by block backwards.

    A block holds no more pairs than *room* has: of a longer one its end is kept, and the next
    block ends where that begins.
    """
    end, step = at, FIRST_BLOCK
    lowest = max(comparison.extent.start, down_to)
    while end > lowest:
        block = _block(comparison, max(lowest, end - step), end, reading, room)
        yield block
        step = room.pairs if len(block.pairs) == room.pairs else step * GROWTH
        end = block.start


def _block(
    comparison: Comparison, start: int, end: int, reading: Reading, room: PageLimits
) -> PairPage:
    kept: deque[RecordPair] = deque(maxlen=room.pairs)
    for pair in comparison.pairs(start, end, reading):
        if len(kept) == room.pairs:
            start = kept[0].offset + 1
        kept.append(pair)
    return PairPage(start, end, tuple(kept))
