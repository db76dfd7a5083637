"""Reads and writes a segment's index: where each offset's record is in the records file.

::

    Entry =>
      Offset   => int64
      Position => int64    of the record in the records file; 1 for the first
      Length   => int64    Position + Length is the next entry's Position

All entries have the same size, so an index is searched on disk and never loaded. Source:
SegmentIndexEntry.java of itadventurer/kafka-backup.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
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
