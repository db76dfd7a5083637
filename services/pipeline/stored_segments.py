"""Reads committed records of one partition as arrays, segment by segment.

Files in a local folder are mapped (`MappedSegment`); all others are read by range
(`FetchedSegment`). An index only saves time: each record that it names, and the records around a
range, must begin in the records file with the offset that the index has. An index that differs is
put aside, and the records file is read from its start.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.folder import Folder, LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.salvage import salvaged
from breakglass.services.topic_backup.segment_bytes import (
    SegmentExtent,
    altered,
    known_blocks,
    open_proved,
)
from breakglass.services.topic_backup.segment_index import (
    OFFSET_BYTES,
    FalseIndex,
    IndexedRecord,
    SegmentIndex,
    open_index,
    require_true,
)
from breakglass.services.topic_backup.segment_reader import (
    FIRST_POSITION,
    FoundRecord,
    read_segment,
)
from breakglass.services.topic_backup.summary import SegmentSummary

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FIELDS = len(IndexedRecord._fields)
RUN_BYTES = 16 * 1024 * 1024
RUN_RECORDS = 100_000


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Adjacent records of one segment."""

    offsets: Longs
    bounds: Longs
    """The start of each record in *data*, and the end of the last; starts with 0."""
    data: Bytes

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, end: int) -> RecordRun:
        """Records number *start* to *end*."""
        bounds, data = self.bounds[start : end + 1], self.data
        return RecordRun(self.offsets[start:end], bounds - bounds[0], data[bounds[0] : bounds[-1]])


def joined(some: Sequence[RecordRun]) -> RecordRun:
    """The records of *some* as one run."""
    if len(some) == 1:
        return some[0]
    sizes = np.concatenate([np.diff(run.bounds) for run in some])
    return RecordRun(
        np.concatenate([run.offsets for run in some]),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
        np.concatenate([run.data for run in some]),
    )


MOST_OPEN = 32
"""Segments with open files, two each: a backup has more segments than a process may open files."""
_open: dict[int, StoredSegment] = {}
"""By id, the least recently used first."""
_opening = threading.RLock()


@dataclass(frozen=True)
class StoredSegment:
    """A committed segment with records; it can be sent to a worker, which opens its files again."""

    folder: Folder
    prefix: str
    records_bytes: int
    count: int
    first_offset: int
    last_offset: int
    sha256: str
    """Of the records file, as it was committed; empty: the segment has no manifest entry."""
    blocks: bytes = field(default=b"", repr=False)
    """The SHA-256 of each block of it, if this process has checked its bytes."""

    @property
    def salvaged(self) -> bool:
        """Whether only records that can be proved are read: no manifest vouches for the others."""
        return not self.sha256

    def opened(self) -> BinaryIO:
        """The records file; with a manifest, as `open_proved`."""
        if self.salvaged:
            return self.folder.open(records_name(self.prefix))
        return open_proved(self.folder, self, self.blocks)

    def walked(self) -> Longs:
        """Offset, position and length of each record, a row each, found without the index.

        The salvaging reader finds the records of a salvaged segment.

        Raises DamagedBackup, StorageError: the records cannot be read, or are not those committed.
        """
        read: Iterator[FoundRecord]
        if self.salvaged:
            end = self.last_offset + 1
            extent = SegmentExtent(self.prefix, self.first_offset, None, end)
            pieces = salvaged(self.folder, extent)
            read = (piece for piece in pieces if isinstance(piece, FoundRecord))
        else:
            name = records_name(self.prefix)
            read = read_segment(self.folder, name, end=self.records_bytes, opened=self.opened())
        found = np.array([IndexedRecord.of(record) for record in read], np.int64).reshape(
            -1, FIELDS
        )
        if not self.salvaged and len(found) != self.count:
            raise DamagedBackup(
                self.folder.where(records_name(self.prefix)),
                FIRST_POSITION,
                f"it has {len(found):,} records, and {self.count:,} were committed",
            )
        return found

    @property
    def reader(self) -> MappedSegment | FetchedSegment:
        """The reader of the segment; the files of `MOST_OPEN` segments stay open."""
        with _opening:
            _open[id(self)] = _open.pop(id(self), self)
            while len(_open) > MOST_OPEN:
                next(iter(_open.values())).passed()
            return self._reader

    @cached_property
    def _reader(self) -> MappedSegment | FetchedSegment:
        if isinstance(self.folder, LocalFolder):
            return MappedSegment(self, self.folder.path)
        return FetchedSegment(self)

    def passed(self) -> None:
        """Close the files, if they are open."""
        if "_reader" in self.__dict__:
            with _opening:
                _open.pop(id(self), None)
                self.__dict__.pop("_reader", None)

    def __getstate__(self) -> dict[str, object]:
        """The fields, without open files."""
        names = {field.name for field in fields(self)}
        return {name: value for name, value in self.__dict__.items() if name in names}


def together(entries: Longs) -> Iterator[Longs]:
    """*entries* divided where records are not adjacent."""
    apart = np.flatnonzero(entries[:-1, 1] + entries[:-1, 2] != entries[1:, 1]) + 1
    yield from np.split(entries, apart)


def entries_of(index: SegmentIndex, start: int, end: int) -> Longs:
    """The entries number *start* to *end*, a row each.

    Raises DamagedBackup, StorageError: the index cannot be read.
    """
    return np.frombuffer(index.some(start, end), ">i8").reshape(-1, FIELDS).astype(np.int64)


def require_adjacent(entries: Longs, begin: int, size: int) -> None:
    """Check that *entries*, at least one, are of adjacent records with rising offsets.

    The first is at position *begin*, and the last ends within *size* bytes.

    Raises FalseIndex: they are not.
    """
    ends = entries[:, 1] + entries[:, 2]
    rising = (np.diff(entries[:, 0]) > 0).all() and (entries[:, 2] >= OFFSET_BYTES).all()
    adjacent = entries[0, 1] == begin and (ends[:-1] == entries[1:, 1]).all()
    if not rising or not adjacent or ends[-1] > size:
        raise FalseIndex


def require_offsets(entries: Longs, data: Bytes, begin: int) -> None:
    """Check that the record of each entry begins with the entry's offset.

    *data* are the bytes of the records file from position *begin* on; *entries* are adjacent.

    Raises FalseIndex: one begins with another offset.
    """
    places = entries[:, 1] - begin
    found = np.zeros(len(entries), np.int64)
    for byte in range(OFFSET_BYTES):
        found = found << 8 | data[places + byte]
    if not (found == entries[:, 0]).all():
        raise FalseIndex


class MappedSegment:
    """One segment whose files are mapped into memory."""

    def __init__(self, segment: StoredSegment, folder: Path) -> None:
        """Map the files of *segment* in *folder* on first use."""
        self._segment = segment
        self._folder = folder

    def runs(self, start: int, end: int) -> Iterator[RecordRun]:
        """The records with offsets in ``[start, end)``: at most one run.

        A salvaged segment may yield several runs: bytes between its records are left out.

        Raises DamagedBackup, StorageError: the records cannot be read.
        """
        if self._segment.salvaged:
            low, high = np.searchsorted(self._entries[:, 0], [start, end])
            for some in together(self._entries[low:high]) if low < high else ():
                begin, stop = int(some[0, 1]), int(some[-1, 1] + some[-1, 2])
                yield RecordRun(
                    some[:, 0], np.append(some[:, 1], stop) - begin, self._data[begin:stop]
                )
            return
        try:
            found = self._cut(start, end)
        except FalseIndex:
            self._entries = self._segment.walked()
            found = self._cut(start, end)
        if found is not None:
            yield found

    def _cut(self, start: int, end: int) -> RecordRun | None:
        entries = self._entries
        low = bisect_left(entries, start, key=_offset_of)
        high = bisect_left(entries, end, low, key=_offset_of)
        # The records before and after the range prove that the index leaves out none within it.
        before = max(0, low - 1)
        near = entries[before : high + 1].astype(np.int64)
        first = FIRST_POSITION if before == 0 else int(near[0, 1])
        require_adjacent(near, first, self._segment.records_bytes)
        require_offsets(near, self._data, 0)
        if low == high:
            return None
        some = near[low - before : high - before]
        begin, stop = int(some[0, 1]), int(some[-1, 1] + some[-1, 2])
        return RecordRun(some[:, 0], np.append(some[:, 1], stop) - begin, self._data[begin:stop])

    @cached_property
    def _entries(self) -> Longs:
        """Offset, position and length of each record, a row each; big-endian if mapped."""
        indexed = self._indexed()
        return indexed if indexed is not None else self._segment.walked()

    @cached_property
    def _data(self) -> Bytes:
        path = self._folder / records_name(self._segment.prefix)
        with storage_errors(str(path)):
            return np.memmap(path, np.uint8, "r", shape=(self._segment.records_bytes,))

    def _indexed(self) -> Longs | None:
        segment = self._segment
        if segment.salvaged:
            return None
        path = self._folder / segment_index_name(segment.prefix)
        try:
            entries = np.memmap(path, ">i8", "r", FIRST_POSITION, (segment.count, FIELDS))
        except (OSError, ValueError):
            return None
        first, last = entries[0], entries[-1]
        fits = (
            (int(first[0]), int(first[1])) == (segment.first_offset, FIRST_POSITION)
            and int(last[0]) == segment.last_offset
            and int(last[1] + last[2]) == segment.records_bytes
        )
        return entries if fits else None


def _offset_of(entry: Longs) -> int:
    return int(entry[0])


class FetchedSegment:
    """One segment that is read by range, some megabytes at a time.

    Readers go forward, so the next read usually starts at the index entry after the last read.
    """

    def __init__(self, segment: StoredSegment) -> None:
        self._segment = segment
        self._where = segment.folder.where(records_name(segment.prefix))
        self._next, self._next_at = 0, FIRST_POSITION
        """The number of the entry after the last one read, and the position of its record."""

    def runs(self, start: int, end: int) -> Iterator[RecordRun]:
        """The records with offsets in ``[start, end)``, in runs that fit in memory.

        Raises DamagedBackup, StorageError: the records cannot be read.
        """
        try:
            if (index := self._index) is not None:
                for run in self._by_index(index, start, end):
                    start = int(run.offsets[-1]) + 1
                    yield run
                return
        except FalseIndex:
            self._index = None
        low, high = (int(at) for at in np.searchsorted(self._walked[:, 0], [start, end]))
        for some in together(self._walked[low:high]) if low < high else ():
            yield from self._fetched(some, len(some))

    def _by_index(self, index: SegmentIndex, start: int, end: int) -> Iterator[RecordRun]:
        """The records by the index, as far as the records file agrees.

        Raises FalseIndex: it does not; records may be missing after the last run.
        """
        segment = self._segment
        low, at = self._next, self._next_at
        ahead = low < segment.count and index[low].offset >= start
        if not (ahead and (low == 0 or index[low - 1].offset < start)):
            low = index.first_from(start, 0, segment.count)
            at = self._proved_before(index, low)
        # Offsets rise by at least one.
        high = index.first_from(end, low, min(segment.count, low + max(0, end - start)))
        for begin in range(low, high, RUN_RECORDS):
            stop = min(begin + RUN_RECORDS, high)
            # The record that follows proves where the last one ends.
            entries = entries_of(index, begin, min(stop + 1, segment.count))
            require_adjacent(entries, at, segment.records_bytes)
            at = int(entries[stop - begin - 1, 1] + entries[stop - begin - 1, 2])
            if stop == segment.count and at != segment.records_bytes:
                raise FalseIndex
            yield from self._fetched(entries, stop - begin)
        if low == high and high < segment.count:
            self._require(index[high], at)
        elif low == high and at != segment.records_bytes:
            raise FalseIndex
        self._next, self._next_at = high, at

    def _proved_before(self, index: SegmentIndex, low: int) -> int:
        """The position of the record of entry *low*: where the record before it ends."""
        if low == 0:
            return FIRST_POSITION
        before = index[low - 1]
        self._require(before, before.position)
        return before.end

    def _require(self, entry: IndexedRecord, position: int) -> None:
        size = self._segment.records_bytes
        if not FIRST_POSITION <= position <= size - OFFSET_BYTES:
            raise FalseIndex
        require_true([entry], self._read(position, position + OFFSET_BYTES), position, size)

    def _fetched(self, entries: Longs, count: int) -> Iterator[RecordRun]:
        """The records of the first *count* of adjacent *entries*.

        Raises FalseIndex: one of them, or the record that follows it, begins with another offset.
        """
        ends = entries[:, 1] + entries[:, 2]
        at = 0
        while at < count:
            begin = int(entries[at, 1])
            fits = int(np.searchsorted(ends[:count], begin + RUN_BYTES, side="right"))
            upto = max(at + 1, fits)
            stop = int(ends[upto - 1])
            follows = upto < len(entries)
            data = self._read(begin, stop + OFFSET_BYTES * follows)
            require_offsets(entries[at : upto + follows], np.frombuffer(data, np.uint8), begin)
            some, own = entries[at:upto], np.frombuffer(data, np.uint8, stop - begin)
            yield RecordRun(some[:, 0], np.append(some[:, 1], stop) - begin, own)
            at = upto

    def _read(self, start: int, end: int) -> bytes:
        """The bytes ``[start, end)`` of the records file, if they are those that were committed."""
        with storage_errors(self._where):
            self._records.seek(start)
            content = self._records.read(end - start)
        if len(content) < end - start:
            raise DamagedBackup(self._where, start + len(content), "the file was cut", torn=True)
        return content

    @cached_property
    def _records(self) -> BinaryIO:
        return self._segment.opened()

    @cached_property
    def _walked(self) -> Longs:
        return self._segment.walked()

    @cached_property
    def _index(self) -> SegmentIndex | None:
        """The index, if it exists and its first and last entry fit the segment."""
        segment = self._segment
        index = None if segment.salvaged else open_index(segment.folder, segment.prefix)
        if index is None or len(index) < segment.count:
            return None
        first, last = index[0], index[segment.count - 1]
        fits = (first.offset, first.position) == (segment.first_offset, FIRST_POSITION)
        if not fits or (last.offset, last.end) != (segment.last_offset, segment.records_bytes):
            return None
        return index


def stored_segments(folder: Folder, segments: Sequence[SegmentSummary]) -> list[StoredSegment]:
    """The *segments* that have records and still exist, by offset."""
    names = set(folder.names())
    return [
        StoredSegment(
            folder,
            segment.prefix,
            segment.records_bytes,
            segment.count,
            segment.first_offset,
            segment.last_offset,
            segment.sha256,
            known_blocks(segment),
        )
        for segment in segments
        if segment.first_offset is not None
        and segment.last_offset is not None
        and records_name(segment.prefix) in names
    ]


def require_unchanged(segments: Sequence[StoredSegment], spans: Iterable[tuple[int, int]]) -> None:
    """Check again the files of this machine that have records of *spans*.

    They are mapped, so that what was restored, and compared, is what they held at that moment.

    Raises DamagedBackup: one has other bytes than were committed.
    """
    for segment in segments:
        if segment.salvaged or not isinstance(segment.folder, LocalFolder):
            continue
        own = any(
            start <= segment.last_offset and segment.first_offset < end for start, end in spans
        )
        if own and (why := altered(segment.folder, segment)):
            raise DamagedBackup(segment.folder.where(records_name(segment.prefix)), 0, why)


def runs_between(segments: Sequence[StoredSegment], start: int, end: int) -> Iterator[RecordRun]:
    """The stored records with offsets in ``[start, end)``, one or more runs for each segment."""
    for segment in segments:
        if segment.last_offset < start:
            segment.passed()
        elif segment.first_offset < end:
            yield from segment.reader.runs(start, end)
            if segment.last_offset < end:
                segment.passed()
