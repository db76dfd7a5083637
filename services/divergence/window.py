"""A stretch of a comparison, held to be looked at: it grows at either end and stays small."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.comparison import Comparison
from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.divergence.hunks import HunkTotals
from breakglass.services.divergence.pages import PageLimits, PairPage, page_before, page_from
from breakglass.services.divergence.source import Reading

MOST_PAIRS = 1_000
BEFORE = PageLimits(pairs=20, bytes=2 * 1024 * 1024)
"""What is held before the address that is gone to."""


@dataclass(frozen=True, slots=True)
class Window:
    """Everything that both sides have in ``[start, end)``."""

    start: int = 0
    end: int = 0
    pairs: tuple[RecordPair, ...] = ()

    def below(self, page: PairPage) -> Window:
        """With *page*, which begins where this ends; what is too much goes at the top."""
        pairs = joined((*self.pairs, *page.pairs))
        if len(pairs) <= MOST_PAIRS:
            return Window(self.start, page.end, pairs)
        kept = pairs[-MOST_PAIRS:]
        return Window(kept[0].offset, page.end, kept)

    def above(self, page: PairPage) -> Window:
        """With *page*, which ends where this begins; what is too much goes at the bottom."""
        pairs = joined((*page.pairs, *self.pairs))
        if len(pairs) <= MOST_PAIRS:
            return Window(page.start, self.end, pairs)
        return Window(page.start, pairs[MOST_PAIRS].offset, pairs[:MOST_PAIRS])

    def place_of(self, offset: int) -> int:
        """Which pair is at *offset*, or else the next one; the last where none follows."""
        place = bisect_left(self.pairs, offset, key=lambda pair: pair.offset)
        return max(0, min(place, len(self.pairs) - 1))

    def next_run(self, place: int) -> int | None:
        """The first pair behind *place* that begins a run of differences, if one is held."""
        return next((one for one in range(place + 1, len(self.pairs)) if self._begins(one)), None)

    def previous_run(self, place: int) -> int | None:
        """The last pair before *place* that is known to begin one; of the first held it is not."""
        return next((one for one in range(place - 1, 0, -1) if self._begins(one)), None)

    def _begins(self, place: int) -> bool:
        kind = self.pairs[place].kind
        return kind is not PairKind.EQUAL and kind is not self.pairs[place - 1].kind

    def totals_from(self, start: int) -> HunkTotals:
        """What of it lies at *start* or behind, counted."""
        totals = HunkTotals(counted_to=start)
        for pair in self.pairs:
            if pair.offset >= start:
                totals.add(pair)
        totals.counted_to = max(start, self.end)
        return totals


def around(comparison: Comparison, offset: int, reading: Reading) -> Window:
    """The window about *offset*: a little before it, and a page behind."""
    extent = comparison.extent
    at = max(extent.start, min(offset, extent.end))
    page = page_from(comparison, at, reading)
    before = page_before(comparison, at, reading, BEFORE)
    return Window(page.start, page.end, page.pairs).above(before)


def joined(pairs: tuple[RecordPair, ...]) -> tuple[RecordPair, ...]:
    """*pairs* with a stretch that two pages split made one again."""
    found: list[RecordPair] = []
    for pair in pairs:
        if found and _continues(found[-1], pair):
            found[-1] = _together(found[-1], pair)
        else:
            found.append(pair)
    return tuple(found)


def _continues(before: RecordPair, pair: RecordPair) -> bool:
    """Both are of one unreadable stretch alone, and touch."""
    if before.kind is not PairKind.UNREAD or pair.kind is not PairKind.UNREAD:
        return False
    ours, theirs = (before.left, before.right), (pair.left, pair.right)
    return all(_touch(one, other) for one, other in zip(ours, theirs, strict=True))


def _touch(one: object, other: object) -> bool:
    if isinstance(one, UnreadableRange) and isinstance(other, UnreadableRange):
        return one.end == other.start and one.reason == other.reason
    return one is None and other is None


def _together(before: RecordPair, pair: RecordPair) -> RecordPair:
    left, right = (
        UnreadableRange(one.start, other.end, one.reason)
        if isinstance(one, UnreadableRange) and isinstance(other, UnreadableRange)
        else None
        for one, other in ((before.left, pair.left), (before.right, pair.right))
    )
    return before._replace(left=left, right=right)
