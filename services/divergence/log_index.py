"""Searches the sparse offset index of one segment of a broker's log.

::

    Entry =>
      RelativeOffset => int32   from the segment's first offset
      Position       => int32   in the .log file; batches rise from entry to entry

Source: OffsetIndex.java, LogSegment.java. A preallocated index ends with zeros.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from breakglass.services.regular_file import read_regular

MOST_BYTES = 1024 * 1024 * 1024
"""No index is larger: the default of segment.index.bytes is 10 MB."""
INDEX_ENTRY = struct.Struct(
    ">i"  # RelativeOffset => int32
    "i"  # Position       => int32
)


class Indexed(NamedTuple):
    """The position of the batch that contains an offset."""

    offset: int
    position: int


class LogIndex:
    """Offsets and positions of some batches, rising; empty without a usable index."""

    def __init__(self, path: Path, base_offset: int) -> None:
        """Read the index at *path*; a missing file is an empty index."""
        try:
            self._content = read_regular(path, MOST_BYTES)
        except OSError:
            self._content = b""
        self._base_offset = base_offset
        written = range(len(self._content) // INDEX_ENTRY.size)
        self._count = bisect_left(written, True, key=lambda number: not self[number].position)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Indexed:
        relative, position = INDEX_ENTRY.unpack_from(self._content, number * INDEX_ENTRY.size)
        return Indexed(self._base_offset + int(relative), int(position))

    @property
    def last(self) -> Indexed | None:
        """The last entry, if it is plausible."""
        return self[self._count - 1] if self._count and self._rises(self._count - 1) else None

    def before(self, offset: int) -> int:
        """A position at or before the batch that contains *offset*; 0 if the index has none."""
        place = bisect_right(self, offset, 0, self._count, key=lambda indexed: indexed.offset) - 1
        return self[place].position if place >= 0 and self._rises(place) else 0

    def behind(self, position: int) -> Iterator[Indexed]:
        """The plausible entries of batches after *position*."""
        first = bisect_right(self, position, 0, self._count, key=lambda indexed: indexed.position)
        for number in range(first, self._count):
            if self._rises(number):
                yield self[number]

    def _rises(self, number: int) -> bool:
        """Whether an entry lies between its neighbours; a damaged entry rarely does."""
        around = [self[one] for one in (number - 1, number, number + 1) if 0 <= one < self._count]
        return all(
            one.offset < other.offset and 0 <= one.position < other.position
            for one, other in pairwise(around)
        )
