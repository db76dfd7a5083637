"""Proves a segment's index by its records file: each record begins with its offset.

The format has no checksum of an index. A flipped bit in one would hide records from a reader that
believes it, so that every reader that uses an index compares what it uses with the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from breakglass.services.topic_backup.segment_index import ENTRY, IndexedRecord, SegmentIndex
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION

OFFSET_BYTES = 8
READ_AT_ONCE = 20_000
"""Entries."""


class FalseIndex(Exception):
    """An index that the records file contradicts."""


def entries_of(index: SegmentIndex, start: int, end: int) -> list[IndexedRecord]:
    """The entries number *start* to *end*.

    Raises:
        DamagedBackup, StorageError: the index cannot be read.
    """
    return [IndexedRecord(*entry) for entry in ENTRY.iter_unpack(index.some(start, end))]


def require_true(entries: Iterable[IndexedRecord], data: bytes, begin: int, size: int) -> None:
    """Check that *entries* are of adjacent records, each of which begins with its offset.

    *data* are the bytes of the records file from position *begin* on, where the first record is;
    the last one ends within *size* bytes.

    Raises:
        FalseIndex: they are not.
    """
    position, last = begin, -1
    for entry in entries:
        at = position - begin
        if (
            entry.position != position
            or entry.offset <= last
            or entry.length < OFFSET_BYTES
            or entry.end > size
            or int.from_bytes(data[at : at + OFFSET_BYTES], signed=True) != entry.offset
        ):
            raise FalseIndex
        position, last = entry.end, entry.offset


class IndexProof:
    """Compares a whole index with the records file while the bytes of the file pass."""

    def __init__(self, index: SegmentIndex, count: int, size: int) -> None:
        """Prove the first *count* entries, of records in *size* bytes of the records file."""
        self._refuted = False
        self._entries = _entries(index, count)
        self._next: IndexedRecord | None = None
        """Read, and not compared yet."""
        self._count, self._size = count, size
        self._compared, self._last, self._end = 0, -1, FIRST_POSITION
        """The entries compared; the offset and the end of the last one."""
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
        while not self._refuted:
            self._next = self._next or next(self._entries, None)
            at = self._end - begin
            if self._next is None or at + OFFSET_BYTES > len(data):
                return
            try:
                require_true([self._next], data[at : at + OFFSET_BYTES], self._end, self._size)
            except FalseIndex:
                self._refuted = True
            self._refuted = self._refuted or self._next.offset <= self._last
            self._last, self._end = self._next.offset, self._next.end
            self._compared += 1
            self._next = None

    @property
    def proved(self) -> bool:
        """Whether all entries were compared and are true, once the file has passed."""
        return not self._refuted and (self._compared, self._end) == (self._count, self._size)


def _entries(index: SegmentIndex, count: int) -> Iterator[IndexedRecord]:
    for start in range(0, count, READ_AT_ONCE):
        yield from entries_of(index, start, min(start + READ_AT_ONCE, count))
