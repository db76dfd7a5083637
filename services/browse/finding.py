"""Finds the next and the previous record of a query, or of a moment, in one stream or two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from breakglass.services.browse.query import RecordQuery
from breakglass.services.divergence.align import RecordPair
from breakglass.services.divergence.comparison import Comparison
from breakglass.services.divergence.content import Keep
from breakglass.services.divergence.entry import Item, RecordEntry
from breakglass.services.divergence.source import Reading, Source

WHOLE = Keep(value=2**31, headers=2**31)
"""A search looks at all of a record, one at a time."""
TELL_EVERY = 256
FIRST_STEP, MOST_STEP, GROWTH = 64, 65_536, 4
"""Offsets that are read at once when a search goes backwards."""

Progress = Callable[[int], None]


def next_match(
    comparison: Comparison, query: RecordQuery, after: int, reading: Reading, progress: Progress
) -> int | None:
    """The first offset above *after* where either side has what is searched for."""
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
    """The last offset below *before* where either side has what is searched for."""
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
    """The first offset whose record was written at *moment_ms* or later, found by halves.

    Exact where timestamps rise, as brokers and most producers write them. The end where none is.
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
    """The first record from *start* on that has a timestamp."""
    for item in source.read(start, end, reading):
        if isinstance(item, RecordEntry) and item.timestamp is not None and item.marker is None:
            return item
    return None


def _fits(query: RecordQuery, pair: RecordPair) -> bool:
    sides: tuple[Item | None, ...] = (pair.left, pair.right)
    if pair.left is pair.right:
        sides = (pair.left,)
    return any(isinstance(one, RecordEntry) and query.fits(one) for one in sides)
