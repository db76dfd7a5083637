"""Aligns two sources entry by entry, and gathers, counts and draws what differs.

Offsets that are proven the same are not read, and equal bytes are not decoded. Where bytes differ,
entries are compared in pairs until enough pairs in a row are equal; then bytes are compared again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from typing_extensions import override

from breakglass.services.divergence.entry import (
    Item,
    RecordEntry,
    RecordField,
    UnreadableRange,
    address,
    differing,
)
from breakglass.services.divergence.source import Extent, Reading, Same, Source, same_from


class PairKind(StrEnum):
    """How two sides compare at one address; the value is the sign it is shown by."""

    EQUAL = "="
    LEFT = "<"
    """Only the left side has it."""
    RIGHT = ">"
    """Only the right side has it."""
    DIFFERENT = "!"
    """Both sides have an entry there, and the entries differ."""
    UNREAD = "?"
    """A side could not be read there, so the sides cannot be compared."""


class RecordPair(NamedTuple):
    """What two sides have at one address."""

    offset: int
    kind: PairKind
    left: Item | None
    right: Item | None
    fields: tuple[RecordField, ...] = ()
    """The fields that differ, for a pair of kind DIFFERENT."""

    @property
    def end(self) -> int:
        """One past the pair's last address; for an unreadable stretch, the end of the stretch."""
        if isinstance(self.left, RecordEntry) or isinstance(self.right, RecordEntry):
            return self.offset + 1
        return max(range_.end for range_ in (self.left, self.right) if range_ is not None)

    @property
    def size(self) -> int:
        """Bytes of the pair's entries, as they are in the sources."""
        return sum(
            entry.size for entry in (self.left, self.right) if isinstance(entry, RecordEntry)
        )

    def mirrored(self) -> RecordPair:
        return RecordPair(self.offset, _MIRRORED[self.kind], self.right, self.left, self.fields)


_MIRRORED = {
    PairKind.EQUAL: PairKind.EQUAL,
    PairKind.LEFT: PairKind.RIGHT,
    PairKind.RIGHT: PairKind.LEFT,
    PairKind.DIFFERENT: PairKind.DIFFERENT,
    PairKind.UNREAD: PairKind.UNREAD,
}


class _Side:
    """A stream with its next entry, and the stretch it was last unreadable in."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._blind: UnreadableRange | None = None
        self._head = next(items, None)

    @property
    def at(self) -> int | None:
        """The address of the next item; None at the end."""
        return None if self._head is None else address(self._head)

    def take(self, at: int) -> Item | None:
        """The item at *at*, if this side has one, and move past it; *at* is not beyond `at`."""
        item = self._head
        if item is None or address(item) != at:
            blind = self._blind
            return blind if blind is not None and at < blind.end else None
        if isinstance(item, UnreadableRange):
            self._blind = item
        self._head = next(self._items, None)
        return item


def align(left: Iterator[Item], right: Iterator[Item]) -> Iterator[RecordPair]:
    """The pairs of two streams, by address.

    A stretch that a side could not read is a pair of its own, at the stretch's first address.
    Entries of the other side within the stretch are UNREAD: they may be on both sides.
    """
    one, other = _Side(left), _Side(right)
    while True:
        places = [at for at in (one.at, other.at) if at is not None]
        if not places:
            return
        yield compared(min(places), one.take(min(places)), other.take(min(places)))


def compared(at: int, left: Item | None, right: Item | None) -> RecordPair:
    """The pair of items at *at*; at least one side has an item."""
    if isinstance(left, UnreadableRange) or isinstance(right, UnreadableRange):
        return RecordPair(at, PairKind.UNREAD, left, right)
    if left is None or right is None:
        return RecordPair(at, PairKind.RIGHT if left is None else PairKind.LEFT, left, right)
    fields = differing(left, right)
    return RecordPair(at, PairKind.DIFFERENT if fields else PairKind.EQUAL, left, right, fields)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sources with common addresses."""

    left: Source
    right: Source
    proven_same: Extent | None = None
    """Addresses at which both sides are known to have the same entries; None: not known."""

    @property
    def extent(self) -> Extent:
        """From the first address of either side to the last."""
        one, other = self.left.extent, self.right.extent
        return Extent(min(one.start, other.start), max(one.end, other.end))

    def pairs(self, start: int, end: int, reading: Reading) -> Iterator[RecordPair]:
        """The pairs in ``[start, end)``, read only as far as the caller asks for them."""
        return align(self.left.read(start, end, reading), self.right.read(start, end, reading))

    def same_from(self, start: int, end: int, reading: Reading) -> Iterator[Same]:
        """How far both sides have the same bytes from *start* on, piece by piece.

        Decodes nothing. Ends where a side cannot be read; `pairs` reports why.
        """
        left = self.left.raw_log(start, end, reading)
        right = self.right.raw_log(start, end, reading)
        if left is None or right is None:
            return iter(())
        return same_from(left, right, start)


class Alone(Comparison):
    """One source by itself: each entry is paired with itself."""

    __slots__ = ()

    def __init__(self, source: Source) -> None:
        super().__init__(source, source)

    def pairs(self, start: int, end: int, reading: Reading) -> Iterator[RecordPair]:
        """The source's entries in ``[start, end)``; a stretch that it cannot read is UNREAD."""
        for item in self.left.read(start, end, reading):
            kind = PairKind.EQUAL if isinstance(item, RecordEntry) else PairKind.UNREAD
            yield RecordPair(address(item), kind, item, item)

    @override
    def same_from(self, start: int, end: int, reading: Reading) -> Iterator[Same]:
        """Nothing: every entry must be read, to find those that cannot be."""
        return iter(())


PATIENCE = 256
"""Equal pairs in a row after which bytes are compared again."""
MOST_PATIENCE = 65_536
"""The limit that `PATIENCE` grows to while comparing bytes keeps failing."""

Run = RecordPair | Same


def runs(comparison: Comparison, start: int, end: int, reading: Reading) -> Iterator[Run]:
    """The runs in ``[start, end)``, by address, read only as far as the caller asks for them."""
    at, patience = max(start, comparison.extent.start), PATIENCE
    end = min(end, comparison.extent.end)
    while at < end:
        proven = comparison.proven_same
        if proven is not None and proven.start <= at < proven.end:
            upto = min(proven.end, end)
            yield Same(at, upto, upto - at)
            at = upto
            continue
        limit = proven.start if proven is not None and at < proven.start < end else end
        for same in comparison.same_from(at, limit, reading):
            yield same
            at, patience = same.end, PATIENCE
        at = yield from _decoded(comparison, at, limit, reading, patience)
        patience = min(2 * patience, MOST_PATIENCE)


def _decoded(
    comparison: Comparison, start: int, end: int, reading: Reading, patience: int
) -> Generator[RecordPair, None, int]:
    """Pairs until *patience* of them in a row were equal; returns the next address."""
    equal = 0
    for pair in comparison.pairs(start, end, reading):
        yield pair
        equal = equal + 1 if pair.kind is PairKind.EQUAL else 0
        if equal == patience:
            return pair.end
    return end


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighbouring pairs that compare alike, in the same fields."""

    kind: PairKind
    fields: tuple[RecordField, ...]
    start: int
    end: int
    """One past the hunk's last address."""
    left: int
    right: int
    """Entries on each side; an unreadable stretch counts as no entry."""


def hunks(found: Iterable[Run]) -> Iterator[Hunk]:
    """The hunks of *found*, both of pairs and of equal stretches, in order."""
    for (kind, fields), group in groupby(found, key=_alike):
        start, end, left, right = -1, 0, 0, 0
        for pair in group:
            first = pair.start if isinstance(pair, Same) else pair.offset
            start = first if start < 0 else start
            end = max(end, pair.end)
            left += pair.entries if isinstance(pair, Same) else _entry(pair.left)
            right += pair.entries if isinstance(pair, Same) else _entry(pair.right)
        yield Hunk(kind, fields, start, end, left, right)


def _alike(one: Run) -> tuple[PairKind, tuple[RecordField, ...]]:
    return (PairKind.EQUAL, ()) if isinstance(one, Same) else (one.kind, one.fields)


def _entry(item: Item | None) -> int:
    return int(isinstance(item, RecordEntry))


@dataclass(slots=True)
class HunkTotals:
    """What was counted so far."""

    kinds: Counter[PairKind] = field(default_factory=Counter)
    """Number of pairs of each kind; UNREAD counts entries and stretches."""
    fields: Counter[RecordField] = field(default_factory=Counter)
    first: int | None = None
    """Address of the first pair that is not EQUAL."""
    counted_to: int = 0
    """Address up to which everything was counted."""

    undecoded: int = 0
    """Number of EQUAL pairs that were known to be equal without decoding."""

    def add(self, found: Run) -> None:
        """Count the next pair, or the entries of a stretch that is the same."""
        if isinstance(found, Same):
            self.kinds[PairKind.EQUAL] += found.entries
            self.undecoded += found.entries
            self.counted_to = max(self.counted_to, found.end)
        else:
            self.kinds[found.kind] += 1
            self.fields.update(found.fields)
            if self.first is None and found.kind is not PairKind.EQUAL:
                self.first = found.offset
            self.counted_to = max(self.counted_to, found.end)

    def merge(self, later: HunkTotals) -> None:
        """Add the totals of the addresses that follow these."""
        self.kinds += later.kinds
        self.fields += later.fields
        self.first = later.first if self.first is None else self.first
        self.counted_to = max(self.counted_to, later.counted_to)
        self.undecoded += later.undecoded

    @property
    def equal(self) -> bool:
        """Whether every counted entry is on both sides and equal."""
        return self.first is None


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
