"""Arithmetic on ranges of offsets ``[start, end)``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

Range = tuple[int, int]
Ranges = Sequence[Range]


_PAST_EVERY_END = 1 << 64


def joined(ranges: Iterable[Range]) -> list[Range]:
    """*ranges* in order, without empty ranges, with adjacent and overlapping ranges merged."""
    found: list[Range] = []
    for start, end in sorted(range_ for range_ in ranges if range_[0] < range_[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def common(some: Ranges, others: Ranges) -> Iterator[Range]:
    """The offsets in both, range by range of *some*."""
    for start, end in some:
        for low, high in others:
            if max(start, low) < min(end, high):
                yield max(start, low), min(end, high)


def outside(some: Iterable[Range], others: Iterable[Range]) -> Iterator[Range]:
    """The offsets of *some* that are in none of *others*."""
    holes = joined(others)
    for start, end in some:
        reached = start
        for low, high in holes:
            if reached < min(low, end):
                yield reached, min(low, end)
            reached = max(reached, high)
        if reached < end:
            yield reached, end


def covers(ranges: Ranges, offset: int) -> bool:
    """Whether one of *ranges*, which are `joined`, has *offset*."""
    at = bisect_right(ranges, (offset, _PAST_EVERY_END)) - 1
    return at >= 0 and offset < ranges[at][1]
