"""Proves a segment's index by its records file: each record begins with its offset.

The format has no checksum of an index. A flipped bit in one would hide records from a reader that
believes it, so that every reader that uses an index compares what it uses with the records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from breakglass.services.topic_backup.segment_index import IndexedRecord, SegmentIndex
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FIELDS = len(IndexedRecord._fields)
OFFSET_BYTES = 8
RUN_RECORDS = 100_000


class FalseIndex(Exception):
    """An index that the records file contradicts."""


def entries_of(index: SegmentIndex, start: int, end: int) -> Longs:
    """Offset, position and length of the records number *start* to *end*, a row each.

    Raises:
        DamagedBackup, StorageError: the index cannot be read.
    """
    return np.frombuffer(index.some(start, end), ">i8").reshape(-1, FIELDS).astype(np.int64)


def require_adjacent(entries: Longs, begin: int, size: int) -> None:
    """Check that *entries*, at least one, are of adjacent records with rising offsets.

    The first is at position *begin*, and the last ends within *size* bytes.

    Raises:
        FalseIndex: they are not.
    """
    ends = entries[:, 1] + entries[:, 2]
    rising = (np.diff(entries[:, 0]) > 0).all() and (entries[:, 2] >= OFFSET_BYTES).all()
    adjacent = entries[0, 1] == begin and (ends[:-1] == entries[1:, 1]).all()
    if not rising or not adjacent or ends[-1] > size:
        raise FalseIndex


def require_offsets(entries: Longs, data: bytes | Bytes, begin: int) -> None:
    """Check that the record of each entry begins with the entry's offset.

    *data* are the bytes of the records file from position *begin* on; *entries* are adjacent.

    Raises:
        FalseIndex: one begins with another offset.
    """
    content = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    places = entries[:, 1] - begin
    found = np.zeros(len(entries), np.int64)
    for byte in range(OFFSET_BYTES):
        found = found << 8 | content[places + byte]
    if not (found == entries[:, 0]).all():
        raise FalseIndex


class IndexProof:
    """Compares a whole index with the records file while the bytes of the file pass."""

    def __init__(self, index: SegmentIndex, count: int, size: int) -> None:
        """Prove the first *count* entries, of records in *size* bytes of the records file."""
        self.refuted = False
        self._index, self._count, self._size = index, count, size
        self._rows: Longs = np.empty((0, FIELDS), np.int64)
        """The entries that were read and not compared yet."""
        self._read, self._last, self._end = 0, -1, FIRST_POSITION
        """The entries read; the offset and the end of the last one."""
        self._passed, self._tail = 0, b""

    def take(self, chunk: bytes) -> None:
        """Compare with the next bytes of the records file.

        Raises:
            DamagedBackup, StorageError: the index cannot be read.
        """
        data = self._tail + chunk
        begin = self._passed - len(self._tail)
        self._passed += len(chunk)
        self._tail = data[1 - OFFSET_BYTES :]
        try:
            while not self.refuted and (len(self._rows) or self._load()):
                most = begin + len(data) - OFFSET_BYTES
                upto = int(np.searchsorted(self._rows[:, 1], most, side="right"))
                require_offsets(self._rows[:upto], data, begin)
                self._rows = self._rows[upto:]
                if len(self._rows):
                    return
        except FalseIndex:
            self.refuted = True

    def _load(self) -> bool:
        """Read the next entries, if there are any."""
        stop = min(self._count, self._read + RUN_RECORDS)
        if self._read == stop:
            return False
        self._rows = entries_of(self._index, self._read, stop)
        require_adjacent(self._rows, self._end, self._size)
        if self._rows[0, 0] <= self._last:
            raise FalseIndex
        self._last, self._end = int(self._rows[-1, 0]), int(self._rows[-1, 1] + self._rows[-1, 2])
        self._read = stop
        return True

    @property
    def proved(self) -> bool:
        """Whether all entries were compared and are true, once the file has passed."""
        done = self._read == self._count and not len(self._rows)
        return done and not self.refuted and self._end == self._size
