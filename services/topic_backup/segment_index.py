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

Reads and writes a partition's index: the names of its segments and their start offsets.

::

    Entry =>
      NameLength  => int32
      Name        => UTF-8     the prefix of the segment's files, without _records
      StartOffset => int64

The index only saves a listing. Readers here list the folder, so an outdated index does no harm.
Source: PartitionIndexEntry.java of itadventurer/kafka-backup.

Rebuilds indexes from the records files, which are the only files that a backup needs.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from breakglass.services.errors import BreakglassError, DamagedBackup, UnsupportedSchema
from breakglass.services.topic_backup.folder import Folder, read_whole, storage_errors
from breakglass.services.topic_backup.layout import (
    listing,
    partition_index_name,
    records_name,
    segment_index_name,
    segment_place,
)
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.record import LENGTH
from breakglass.services.topic_backup.segment_reader import (
    FIRST_POSITION,
    MAGIC,
    FoundRecord,
    check_magic,
    read_segment,
)

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

        Raises DamagedBackup, UnsupportedSchema: the file does not begin like an index.
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

    Raises DamagedBackup, StorageError: the index cannot be read.
    """
    return [IndexedRecord(*entry) for entry in ENTRY.iter_unpack(index.some(start, end))]


def require_true(entries: Iterable[IndexedRecord], data: bytes, begin: int, size: int) -> None:
    """Check that *entries* are of adjacent records, each of which begins with its offset.

    *data* are the bytes of the records file from position *begin* on, where the first record is;
    the last one ends within *size* bytes.

    Raises FalseIndex: they are not.
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

        Raises DamagedBackup, StorageError: the index cannot be read.
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


START_OFFSET = struct.Struct(">q")

MAX_NAME_BYTES = 255
"""File systems do not allow longer names."""
MAX_INDEX_BYTES = 256 * 1024 * 1024
"""Maximum size of a partition index that is read_partition_index: four million segments."""


class SegmentEntry(NamedTuple):
    """One segment."""

    prefix: str
    start_offset: int


def encode_partition_index(entries: Iterable[SegmentEntry]) -> bytes:
    """The bytes of the whole file."""
    return MAGIC + b"".join(encode_segment(entry) for entry in entries)


def encode_segment(entry: SegmentEntry) -> bytes:
    """The bytes of one segment's entry."""
    name = entry.prefix.encode()
    return LENGTH.pack(len(name)) + name + START_OFFSET.pack(entry.start_offset)


def read_partition_index(folder: Folder, partition: int) -> tuple[SegmentEntry, ...]:
    """The entries of the index of *partition*.

    Raises:
        DamagedBackup: bytes are not an entry, an entry is incomplete, or offsets do not rise.
        UnsupportedSchema: the file has another version of the format.
        StorageError: the file does not exist.
    """
    name = partition_index_name(partition)
    where = folder.where(name)
    with folder.open(name) as file:
        check_magic(file, where)
    return decode_partition_index(read_whole(folder, name, MAX_INDEX_BYTES)[FIRST_POSITION:], where)


def decode_partition_index(content: bytes, where: str) -> tuple[SegmentEntry, ...]:
    """The entries in *content*, which follows the magic byte.

    Raises DamagedBackup: as `read_partition_index`.
    """
    entries: list[SegmentEntry] = []
    at, latest = 0, -1
    while at < len(content):
        entry, after = _decode_segment(content, at, where)
        if entry.start_offset <= latest:
            reason = f"start offset {entry.start_offset} follows {latest}"
            raise DamagedBackup(where, FIRST_POSITION + at, reason)
        entries.append(entry)
        at, latest = after, entry.start_offset
    return tuple(entries)


def _decode_segment(content: bytes, at: int, where: str) -> tuple[SegmentEntry, int]:
    name_at = at + LENGTH.size
    if name_at > len(content):
        raise DamagedBackup(where, FIRST_POSITION + at, "the last entry is cut", torn=True)
    (size,) = LENGTH.unpack_from(content, at)
    if not 0 <= size <= MAX_NAME_BYTES:
        raise DamagedBackup(where, FIRST_POSITION + at, f"no name has {size} bytes")
    offset_at = name_at + size
    after = offset_at + START_OFFSET.size
    if after > len(content):
        raise DamagedBackup(where, FIRST_POSITION + at, "the last entry is cut", torn=True)
    (start_offset,) = START_OFFSET.unpack_from(content, offset_at)
    try:
        name = content[name_at:offset_at].decode()
    except UnicodeDecodeError:
        raise DamagedBackup(where, FIRST_POSITION + name_at, "the name is not UTF-8") from None
    if "/" in name or segment_place(name) is None:
        raise DamagedBackup(where, FIRST_POSITION + at, "the name is none of a segment")
    return SegmentEntry(name, start_offset), after


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What the rebuilt index of one segment covers."""

    partition: int
    prefix: str
    entries: int
    end: int
    """Where the complete records of the records file end."""
    left_out: int
    """How many bytes follow."""
    damage: str | None
    """Why reading stopped there; None if nothing is left out."""
    torn: bool
    """Whether the left-out bytes are one incomplete record, as after a killed writer."""


def reindex(folder: Folder, partition: int) -> tuple[Reindexed, ...]:
    """Rewrite the segment indexes and then the partition index of *partition*.

    Each index covers every complete record and replaces the old index atomically. Records stay
    unchanged, and so does the index of a segment that is damaged before its end, because `mending`
    reads both.

    Raises:
        DamagedBackup: a records file is empty, or its segment has two names.
        UnsupportedSchema: a records file has another version.
    """
    segments = _named_segments(folder, partition)
    rebuilt = tuple(_rebuild(folder, partition, segment[0]) for segment in segments)
    write_partition_index(folder, partition, segments)
    return rebuilt


def segments_of(folder: Folder, partition: int) -> tuple[str, ...]:
    """The names of the segments that `reindex` makes an index of."""
    return tuple(prefix for prefix, _ in _named_segments(folder, partition))


def _named_segments(folder: Folder, partition: int) -> list[tuple[str, int]]:
    """The name and start offset of each segment with records."""
    names = folder.names()
    files = listing(names).get(partition)
    found = files.segments if files else []
    flat = [(segment.prefix, segment.start_offset) for segment in found if segment.has_records]
    manifest = None if folder.original else read_manifest(folder)
    held = manifest.partition(partition) if manifest else None
    if held is None:
        return flat
    there = set(names)
    return [
        (segment.prefix, segment.start_offset)
        for segment in held.segments
        if records_name(segment.prefix) in there
    ]


def write_partition_index(
    folder: Folder, partition: int, segments: Iterable[tuple[str, int]]
) -> None:
    """Write a partition index with *segments*, given by name and start offset.

    Writes nothing in a folder where Kafka Backup's readers would not look for it.
    """
    if not folder.original:
        return
    entries = (SegmentEntry(*segment) for segment in segments)
    folder.replace(partition_index_name(partition), [encode_partition_index(entries)])


def write_segment_index(folder: Folder, prefix: str, placed: Iterable[FoundRecord]) -> None:
    """Write the index of a whole segment."""
    entries = (encode_entry(IndexedRecord.of(one)) for one in placed)
    folder.replace(segment_index_name(prefix), chain([MAGIC], entries))


def _rebuild(folder: Folder, partition: int, prefix: str) -> Reindexed:
    walk = _Walk(folder, prefix)
    for _ in walk:
        pass
    if walk.damage is None or walk.damage.torn:
        # A damaged segment keeps its index, which is the second witness of its records.
        walk = _Walk(folder, prefix)
        write_segment_index(folder, prefix, walk)
    size = folder.size(records_name(prefix)) or 0
    return Reindexed(
        partition=partition,
        prefix=prefix,
        entries=walk.count,
        end=walk.end,
        left_out=size - walk.end,
        damage=walk.damage.reason if walk.damage else None,
        torn=walk.damage is not None and walk.damage.torn,
    )


class _Walk:
    """Reads the complete records of a segment; keeps where they ended and why."""

    def __init__(self, folder: Folder, prefix: str) -> None:
        self._read = read_segment(folder, records_name(prefix))
        self.count = 0
        self.end = FIRST_POSITION
        self.damage: DamagedBackup | None = None

    def __iter__(self) -> Iterator[FoundRecord]:
        try:
            for placed in self._read:
                yield placed
                self.count += 1
                self.end = placed.end
        except DamagedBackup as damage:
            if damage.position < FIRST_POSITION:
                raise
            self.damage = damage
