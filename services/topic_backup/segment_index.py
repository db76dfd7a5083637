"""Reads and writes a segment's index: where each offset's record is in the records file.

::

    Entry =>
      Offset   => int64
      Position => int64    of the record in the records file; 1 for the first
      Length   => int64    Position + Length is the next entry's Position

All entries have the same size, so an index is searched on disk and never loaded. The format has no
checksum of an index. A flipped bit in one would hide records from a reader that believes it, so
that every reader that uses an index compares what it uses with the records file, where each record
begins with its offset. Source: SegmentIndexEntry.java of itadventurer/kafka-backup.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from breakglass.services.errors import BreakglassError, DamagedBackup, UnsupportedSchema
from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.layout import segment_index_name
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, FoundRecord, check_magic

ENTRY = struct.Struct(
    ">q"  # Offset   => int64
    "q"  # Position => int64
    "q"  # Length   => int64
)


class IndexedRecord(NamedTuple):
    """Where one record is."""

    offset: int
    position: int
    length: int
    """How many bytes."""

    @property
    def end(self) -> int:
        return self.position + self.length

    @classmethod
    def of(cls, found: FoundRecord) -> IndexedRecord:
        return cls(found.record.offset, found.position, found.length)


def encode_entry(entry: IndexedRecord) -> bytes:
    """The bytes of one record's entry."""
    return ENTRY.pack(*entry)


class SegmentIndex:
    """A segment's index on disk; an incomplete entry at the end is ignored."""

    def __init__(self, folder: Folder, prefix: str) -> None:
        """Open the index.

        Raises:
            DamagedBackup, UnsupportedSchema: the file does not begin like an index.
        """
        name = segment_index_name(prefix)
        self._where = folder.where(name)
        self._file = folder.open(name)
        try:
            check_magic(self._file, self._where)
            with storage_errors(self._where):
                size = self._file.seek(0, 2)
        except BreakglassError:
            self._file.close()
            raise
        self._count = (size - FIRST_POSITION) // ENTRY.size

    def __enter__(self) -> SegmentIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> IndexedRecord:
        if not 0 <= number < self._count:
            raise IndexError(number)
        with storage_errors(self._where):
            position = self._file.seek(FIRST_POSITION + number * ENTRY.size)
            content = self._file.read(ENTRY.size)
        if len(content) < ENTRY.size:
            raise DamagedBackup(self._where, position, "the file was cut while it was read")
        return IndexedRecord(*ENTRY.unpack(content))

    def some(self, start: int, end: int) -> bytes:
        """The bytes of the entries number *start* to *end*."""
        with storage_errors(self._where):
            position = self._file.seek(FIRST_POSITION + start * ENTRY.size)
            content = self._file.read((end - start) * ENTRY.size)
        if len(content) < (end - start) * ENTRY.size:
            raise DamagedBackup(self._where, position, "the file was cut while it was read")
        return content

    @property
    def last(self) -> IndexedRecord | None:
        return self[self._count - 1] if self._count else None

    def first_from(self, offset: int, low: int = 0, high: int | None = None) -> int:
        """The number of the first entry at or after *offset*, if entries rise as they should.

        The result is between *low* and *high*.
        """
        return bisect_left(self, offset, low, high, key=lambda entry: entry.offset)

    def count_within(self, size: int) -> int:
        """How many entries have their record in the first *size* bytes of the records file."""
        return bisect_left(self, size + 1, key=lambda entry: entry.end)


def open_index(folder: Folder, prefix: str) -> SegmentIndex | None:
    """The index of a segment; None if it is missing, empty or not an index."""
    if folder.size(segment_index_name(prefix)) is None:
        return None
    try:
        return SegmentIndex(folder, prefix)
    except (DamagedBackup, UnsupportedSchema):
        return None


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
