"""Find the next or previous record that matches a query or a time, in one stream or in two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from breakglass.services.browse.query import RecordQuery
from breakglass.services.divergence.align import Comparison, RecordPair
from breakglass.services.divergence.entry import Item, Keep, RecordEntry
from breakglass.services.divergence.source import Reading, Source

WHOLE = Keep(value=2**31, headers=2**31)
"""A search reads whole records, one at a time."""
TELL_EVERY = 256
FIRST_STEP, MOST_STEP, GROWTH = 64, 65_536, 4
"""How many offsets a backward search reads at once: at first, at most, and the growth factor."""

Progress = Callable[[int], None]


def next_match(
    comparison: Comparison, query: RecordQuery, after: int, reading: Reading, progress: Progress
) -> int | None:
    """The first offset above *after* at which a record of either side matches."""
    whole = replace(reading, keep=WHOLE)
    start = max(after + 1, comparison.extent.start)
    for number, pair in enumerate(comparison.pairs(start, comparison.extent.end, whole), 1):
        if _fits(query, pair):
            return pair.offset
        if number % TELL_EVERY == 0:
            progress(pair.offset)
    return None


def previous_match(
    comparison: Comparison, query: RecordQuery, before: int, reading: Reading, progress: Progress
) -> int | None:
    """The last offset below *before* at which a record of either side matches."""
    whole = replace(reading, keep=WHOLE)
    lowest, end, step = comparison.extent.start, min(before, comparison.extent.end), FIRST_STEP
    while end > lowest:
        start, found = max(lowest, end - step), None
        for pair in comparison.pairs(start, end, whole):
            if _fits(query, pair):
                found = pair.offset
        if found is not None:
            return found
        progress(start)
        end, step = start, min(step * GROWTH, MOST_STEP)
    return None


def first_at(source: Source, moment_ms: int, reading: Reading) -> int:
    """The first offset whose record has a timestamp of *moment_ms* or later, by binary search.

    The result is exact where timestamps rise with offsets. If no record is that late, it is the
    end of *source*.
    """
    low, high = source.extent.start, source.extent.end
    while low < high:
        middle = (low + high) // 2
        entry = _stamped(source, middle, high, reading)
        if entry is None or (entry.timestamp or 0) >= moment_ms:
            high = middle
        else:
            low = entry.offset + 1
    return low


def _stamped(source: Source, start: int, end: int, reading: Reading) -> RecordEntry | None:
    """The first record at or after *start* that has a timestamp."""
    for item in source.read(start, end, reading):
        if isinstance(item, RecordEntry) and item.timestamp is not None and item.marker is None:
            return item
    return None


def _fits(query: RecordQuery, pair: RecordPair) -> bool:
    sides: tuple[Item | None, ...] = (pair.left, pair.right)
    if pair.left is pair.right:
        sides = (pair.left,)
    return any(isinstance(side, RecordEntry) and query.fits(side) for side in sides)
