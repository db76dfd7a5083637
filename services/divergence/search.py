"""Finds the next and the previous difference, however far away, and counts all differences.

Consecutive differences of one kind are one run: a search finds the beginning of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from breakglass.services.divergence.align import Comparison, HunkTotals, PairKind, Run, runs
from breakglass.services.divergence.source import Reading, Same

TELL_EVERY = 256
"""Number of pairs or equal stretches between two reports of progress."""
FIRST_BLOCK, MOST_BLOCK, GROWTH = 16, 1_000_000, 4
"""Number of addresses in the blocks of a backward search: first, at most, and their growth."""

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
        if _start(pair) > after and _begins(kind, before):
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
        block = _looked_at(runs(comparison, start, end, reading))
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


def _looked_at(found: Iterator[Run]) -> _Block | None:
    block: _Block | None = None
    for pair in found:
        kind = _kind(pair)
        if block is None:
            block = _Block(_Place(_start(pair), kind), kind)
        elif _begins(kind, block.last):
            block.begin = _start(pair)
        block.last = kind
    return block


def _blocks_before(comparison: Comparison, before: int) -> Iterator[tuple[int, int]]:
    """Blocks ``[start, end)`` backwards from *before*; a proven equal stretch is one block."""
    extent, proven = comparison.extent, comparison.proven_same
    end, step = min(before, extent.end), FIRST_BLOCK
    while end > extent.start:
        start = max(extent.start, end - step)
        if proven is not None and proven.start < end <= proven.end:
            start = proven.start
        elif proven is not None and start < proven.end < end:
            start = proven.end
        yield start, end
        end, step = start, min(step * GROWTH, MOST_BLOCK)


def _begins(kind: PairKind, before: PairKind | None) -> bool:
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
