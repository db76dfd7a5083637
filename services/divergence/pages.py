"""Pages through a comparison, forward and back from any address, in bounded memory and time.

Finds the next and the previous difference, however far away, and counts all differences.
Consecutive differences of one kind are one run: a search finds the beginning of a run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from breakglass.services.divergence.align import (
    Comparison,
    HunkTotals,
    PairKind,
    RecordPair,
    Run,
    runs,
)
from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.divergence.source import Reading, Same

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
