"""Aligns two sources entry by entry, and pages through what differs.

Offsets that are proven the same are not read, and equal bytes are not decoded. Where bytes differ,
entries are compared in pairs until enough pairs in a row are equal; then bytes are compared again.

Pages go forward and back from any address, in bounded memory and time. Consecutive differences of
one kind are one run: a search finds the beginning of the next or the previous run, however far.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from typing_extensions import override

from breakglass.services.divergence.source import (
    Extent,
    Item,
    Reading,
    RecordEntry,
    RecordField,
    Same,
    Source,
    UnreadableRange,
    address,
    differing,
    same_from,
)


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


FIRST_BLOCK = 4
"""Number of addresses in the first block of a page read backwards; later blocks are larger."""
GROWTH = 4


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The largest size of a page."""

    pairs: int
    bytes: int
    """Bytes of the entries in the sources: what a page reads, not what it keeps in memory."""


PAGE = PageLimits(pairs=200, bytes=8 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class PairPage:
    """All pairs in ``[start, end)``."""

    start: int
    end: int
    pairs: tuple[RecordPair, ...]


def page_from(
    comparison: Comparison, at: int, reading: Reading, room: PageLimits = PAGE
) -> PairPage:
    """The page that begins at *at*, as large as *room* allows; has a pair if any follows."""
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
    """The page that ends before *at*, as large as *room* allows.

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
        """Whether *pair* fits, which the caller must then take; the first pair always fits."""
        self._size += pair.size
        if not self.pairs:
            return True
        return len(self.pairs) < self._room.pairs and self._size <= self._room.bytes


def blocks_before(
    comparison: Comparison, at: int, reading: Reading, room: PageLimits
) -> Iterator[PairPage]:
    """The pairs before *at*, block by block backwards.

    A block has at most as many pairs as *room* allows: of a longer block the end is kept, and the
    next block ends where the kept part begins.
    """
    end, step, lowest = at, FIRST_BLOCK, comparison.extent.start
    while end > lowest:
        start = max(lowest, end - step)
        kept: deque[RecordPair] = deque(maxlen=room.pairs)
        for pair in comparison.pairs(start, end, reading):
            if len(kept) == room.pairs:
                start = kept[0].offset + 1
            kept.append(pair)
        block = PairPage(start, end, tuple(kept))
        yield block
        step = room.pairs if len(block.pairs) == room.pairs else step * GROWTH
        end = block.start


MOST_PAIRS = 1_000
BEFORE = PageLimits(pairs=20, bytes=2 * 1024 * 1024)
"""What a window keeps before the address that it is opened at."""


@dataclass(frozen=True, slots=True)
class Window:
    """All pairs in ``[start, end)``, a stretch that grows at either end and stays small."""

    start: int = 0
    end: int = 0
    pairs: tuple[RecordPair, ...] = ()

    def below(self, page: PairPage) -> Window:
        """The window with *page* appended at its end; excess pairs are dropped at the top."""
        pairs = joined((*self.pairs, *page.pairs))
        if len(pairs) <= MOST_PAIRS:
            return Window(self.start, page.end, pairs)
        kept = pairs[-MOST_PAIRS:]
        return Window(kept[0].offset, page.end, kept)

    def above(self, page: PairPage) -> Window:
        """The window with *page* put before its start; excess pairs are dropped at the bottom."""
        pairs = joined((*page.pairs, *self.pairs))
        if len(pairs) <= MOST_PAIRS:
            return Window(page.start, self.end, pairs)
        return Window(page.start, pairs[MOST_PAIRS].offset, pairs[:MOST_PAIRS])

    def place_of(self, offset: int) -> int:
        """Index of the pair at *offset*, else of the next pair; the last pair if none follows."""
        place = bisect_left(self.pairs, offset, key=lambda pair: pair.offset)
        return max(0, min(place, len(self.pairs) - 1))

    def next_run(self, place: int) -> int | None:
        """The first pair of the window after *place* that begins a run of differences."""
        return next(
            (number for number in range(place + 1, len(self.pairs)) if self._begins(number)), None
        )

    def previous_run(self, place: int) -> int | None:
        """The last pair before *place* that begins a run of differences.

        Whether the window's first pair begins a run is not known: the pair before it is gone.
        """
        return next((number for number in range(place - 1, 0, -1) if self._begins(number)), None)

    def _begins(self, place: int) -> bool:
        kind = self.pairs[place].kind
        return kind is not PairKind.EQUAL and kind is not self.pairs[place - 1].kind

    def totals_from(self, start: int) -> HunkTotals:
        totals = HunkTotals(counted_to=start)
        for pair in self.pairs:
            if pair.offset >= start:
                totals.add(pair)
        totals.counted_to = max(start, self.end)
        return totals


def around(comparison: Comparison, offset: int, reading: Reading) -> Window:
    """The window around *offset*: some pairs before it, and a page after it."""
    extent = comparison.extent
    at = max(extent.start, min(offset, extent.end))
    page = page_from(comparison, at, reading)
    before = page_before(comparison, at, reading, BEFORE)
    return Window(page.start, page.end, page.pairs).above(before)


def joined(pairs: tuple[RecordPair, ...]) -> tuple[RecordPair, ...]:
    """*pairs*, with an unreadable stretch that two pages split joined into one pair."""
    found: list[RecordPair] = []
    for pair in pairs:
        if found and _continues(found[-1], pair):
            before = found[-1]
            left, right = (
                UnreadableRange(one.start, other.end, one.reason)
                if isinstance(one, UnreadableRange) and isinstance(other, UnreadableRange)
                else None
                for one, other in ((before.left, pair.left), (before.right, pair.right))
            )
            found[-1] = before._replace(left=left, right=right)
        else:
            found.append(pair)
    return tuple(found)


def _continues(before: RecordPair, pair: RecordPair) -> bool:
    """Whether both pairs are of the same unreadable stretch and adjacent."""
    if before.kind is not PairKind.UNREAD or pair.kind is not PairKind.UNREAD:
        return False
    return all(
        one.end == other.start and one.reason == other.reason
        if isinstance(one, UnreadableRange) and isinstance(other, UnreadableRange)
        else one is None and other is None
        for one, other in ((before.left, pair.left), (before.right, pair.right))
    )


TELL_EVERY = 256
"""Number of pairs or equal stretches between two reports of progress."""
FIRST_SEARCHED, MOST_SEARCHED = 16, 1_000_000
"""Number of addresses in the blocks of a backward search: first, and at most."""

Progress = Callable[[int], None]


def next_difference(
    comparison: Comparison, after: int, reading: Reading, progress: Progress
) -> int | None:
    """The first address above *after* at which a run of differences begins; None: there is none.

    Entries that are known to be the same are not decoded. *progress* receives the address reached.
    """
    before: PairKind | None = None
    for pair in _told(runs(comparison, after, comparison.extent.end, reading), progress):
        kind = _kind(pair)
        if _start(pair) > after and _begins_run(kind, before):
            return _start(pair)
        before = kind
    return None


def previous_difference(
    comparison: Comparison, before: int, reading: Reading, progress: Progress
) -> int | None:
    """The last address below *before* at which a run of differences begins; None: there is none."""
    open_run: _Place | None = None
    """The first pair compared so far, if it differs: its run may begin before it."""
    for start, end in _blocks_before(comparison, before):
        found = runs(comparison, start, end, reading)
        block: _Block | None = None
        for pair in found:
            kind = _kind(pair)
            if block is None:
                block = _Block(_Place(_start(pair), kind), kind)
            elif _begins_run(kind, block.last):
                block.begin = _start(pair)
            block.last = kind
        if block is not None:
            if open_run is not None and block.last is not open_run.kind:
                return open_run.offset
            if block.begin is not None:
                return block.begin
            open_run = None if block.first.kind is PairKind.EQUAL else block.first
        progress(start)
    return None if open_run is None else open_run.offset


def count(
    comparison: Comparison, start: int, reading: Reading, progress: Callable[[HunkTotals], None]
) -> HunkTotals:
    """Totals from *start* to the end of both sides; *progress* receives them as they grow."""
    totals = HunkTotals(counted_to=start)
    for number, one in enumerate(runs(comparison, start, comparison.extent.end, reading), 1):
        totals.add(one)
        if number % TELL_EVERY == 0:
            progress(totals)
    totals.counted_to = max(start, comparison.extent.end)
    return totals


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    kind: PairKind


@dataclass(slots=True)
class _Block:
    """What a backward search keeps about a block of addresses."""

    first: _Place
    last: PairKind
    begin: int | None = None
    """Where the last run within the block begins; the first pair's run may begin before it."""


def _blocks_before(comparison: Comparison, before: int) -> Iterator[tuple[int, int]]:
    """Blocks ``[start, end)`` backwards from *before*; a proven equal stretch is one block."""
    extent, proven = comparison.extent, comparison.proven_same
    end, step = min(before, extent.end), FIRST_SEARCHED
    while end > extent.start:
        start = max(extent.start, end - step)
        if proven is not None and proven.start < end <= proven.end:
            start = proven.start
        elif proven is not None and start < proven.end < end:
            start = proven.end
        yield start, end
        end, step = start, min(step * GROWTH, MOST_SEARCHED)


def _begins_run(kind: PairKind, before: PairKind | None) -> bool:
    """Whether a run of differences begins with a pair of *kind* that follows one of *before*."""
    return kind is not PairKind.EQUAL and kind is not before


def _kind(one: Run) -> PairKind:
    return PairKind.EQUAL if isinstance(one, Same) else one.kind


def _start(one: Run) -> int:
    return one.start if isinstance(one, Same) else one.offset


def _told(found: Iterator[Run], progress: Progress) -> Iterator[Run]:
    """The runs of *found*; reports progress after every `TELL_EVERY` of them."""
    for number, one in enumerate(found, 1):
        if number % TELL_EVERY == 0:
            progress(one.end - 1)
        yield one
