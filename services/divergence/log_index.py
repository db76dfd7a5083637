"""The sparse index of one segment of a broker's log, searched where it is asked.

::

    Entry =>
      RelativeOffset => int32   from the segment's first offset
      Position       => int32   in the .log file; batches rise from entry to entry

Source: OffsetIndex.java, LogSegment.java. An index that is preallocated ends with zeros.
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
"""No index is larger: by default brokers let it grow to 10 MB."""
INDEX_ENTRY = struct.Struct(
    ">i"  # RelativeOffset => int32
    "i"  # Position       => int32
)


class Indexed(NamedTuple):
    """Where a batch lies that holds an offset."""

    offset: int
    position: int


class LogIndex:
    """Offsets and positions of batches here and there, rising; empty without a usable index."""

    def __init__(self, path: Path, base_offset: int) -> None:
        """Read the index at *path*; one that is not there is empty."""
        try:
            self._content = read_regular(path, MOST_BYTES)
        except OSError:
            self._content = b""
        self._base_offset = base_offset
        written = range(len(self._content) // INDEX_ENTRY.size)
        self._count = bisect_left(written, True, key=lambda one: not self[one].position)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Indexed:
        relative, position = INDEX_ENTRY.unpack_from(self._content, number * INDEX_ENTRY.size)
        return Indexed(self._base_offset + int(relative), int(position))

    @property
    def last(self) -> Indexed | None:
        """The last entry, if it can be believed."""
        return self[self._count - 1] if self._count and self._rises(self._count - 1) else None

    def before(self, offset: int) -> int:
        """Where to begin so that no batch from *offset* on is missed; 0 where it cannot tell."""
        place = bisect_right(self, offset, 0, self._count, key=lambda one: one.offset) - 1
        return self[place].position if place >= 0 and self._rises(place) else 0

    def behind(self, position: int) -> Iterator[Indexed]:
        """The entries of batches behind that byte, as far as they can be believed."""
        first = bisect_right(self, position, 0, self._count, key=lambda one: one.position)
        for number in range(first, self._count):
            if self._rises(number):
                yield self[number]

    def _rises(self, number: int) -> bool:
        """Whether an entry stands between its neighbours, as damaged ones seldom do."""
        around = [self[one] for one in (number - 1, number, number + 1) if 0 <= one < self._count]
        return all(
            one.offset < other.offset and 0 <= one.position < other.position
            for one, other in pairwise(around)
        )
