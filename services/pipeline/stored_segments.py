"""Reads committed records of one partition as arrays, segment by segment.

Files in a local folder are mapped (`MappedSegment`); all others are read by range
(`FetchedSegment`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.folder import Folder, LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.salvage.finding import FoundRecord
from breakglass.services.topic_backup.salvage.salvage import salvaged
from breakglass.services.topic_backup.segment_index import IndexedRecord, SegmentIndex, open_index
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, Placed, read_segment
from breakglass.services.topic_backup.summary import SegmentSummary

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FIELDS = len(IndexedRecord._fields)


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Adjacent records of one segment."""

    offsets: Longs
    bounds: Longs
    """The start of each record in *data*, and the end of the last; starts with 0."""
    data: Bytes


@dataclass(frozen=True)
class SegmentFiles:
    """The files of one committed segment with records."""

    folder: Folder
    prefix: str
    records_bytes: int
    count: int
    first_offset: int
    last_offset: int
    salvaged: bool = False
    """The segment has no manifest entry: only records that can be proved are read."""

    def walked(self) -> Longs:
        """Offset, position and length of each record, a row each, found without the index.

        The salvaging reader finds the records of a salvaged segment.
        """
        found = self._salvaged() if self.salvaged else self._read()
        return np.array([IndexedRecord.of(record) for record in found], np.int64).reshape(
            -1, FIELDS
        )

    def _read(self) -> Iterator[Placed]:
        return read_segment(self.folder, records_name(self.prefix), end=self.records_bytes)

    def _salvaged(self) -> Iterator[Placed]:
        pieces = salvaged(
            self.folder,
            self.prefix,
            start_offset=self.first_offset,
            next_offset=self.last_offset + 1,
        )
        return (piece.placed for piece in pieces if isinstance(piece, FoundRecord))


def together(entries: Longs) -> Iterator[Longs]:
    """*entries* divided where records are not adjacent."""
    apart = np.flatnonzero(entries[:-1, 1] + entries[:-1, 2] != entries[1:, 1]) + 1
    yield from np.split(entries, apart)


class MappedSegment:
    """One segment whose files are mapped into memory."""

    def __init__(self, segment: SegmentFiles, folder: Path) -> None:
        """Map the files of *segment* in *folder* on first use."""
        self._segment = segment
        self._folder = folder

    def runs(self, start: int, end: int) -> Iterator[RecordRun]:
        """The records with offsets in ``[start, end)``: at most one run.

        A salvaged segment may yield several runs: bytes between its records are left out.

        Raises:
            DamagedBackup, StorageError: the records cannot be read.
        """
        if self._segment.salvaged:
            yield from self._salvaged(start, end)
            return
        found = self._cut(start, end)
        if isinstance(found, _Unfit):
            # Only an index can be unfit, and walked entries do not come from an index.
            self._entries = self._segment.walked()
            found = self._cut(start, end)
        assert not isinstance(found, _Unfit)
        if found is not None:
            yield found

    def _salvaged(self, start: int, end: int) -> Iterator[RecordRun]:
        low, high = np.searchsorted(self._entries[:, 0], [start, end])
        for some in together(self._entries[low:high]) if low < high else ():
            begin, stop = int(some[0, 1]), int(some[-1, 1] + some[-1, 2])
            yield RecordRun(some[:, 0], np.append(some[:, 1], stop) - begin, self._data[begin:stop])

    def _cut(self, start: int, end: int) -> RecordRun | None | _Unfit:
        entries = self._entries
        low = bisect_left(entries, start, key=_offset_of)
        high = bisect_left(entries, end, low, key=_offset_of)
        if low == high:
            return None
        some = entries[low:high].astype(np.int64)
        ends = some[:, 1] + some[:, 2]
        begin, stop = int(some[0, 1]), int(ends[-1])
        if not (ends[:-1] == some[1:, 1]).all() or not FIRST_POSITION <= begin < stop:
            return _Unfit()
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


class _Unfit:
    """An index whose records are not adjacent."""


def _offset_of(entry: Longs) -> int:
    return int(entry[0])


RUN_BYTES = 16 * 1024 * 1024
RUN_RECORDS = 100_000


class FetchedSegment:
    """One segment that is read by range, some megabytes at a time.

    Readers go forward, so the next read usually starts at the index entry after the last read.
    """

    def __init__(self, segment: SegmentFiles) -> None:
        self._segment = segment
        self._next = 0
        """The number of the entry after the last one read."""

    def runs(self, start: int, end: int) -> Iterator[RecordRun]:
        """The records with offsets in ``[start, end)``, in runs that fit in memory.

        Raises:
            DamagedBackup, StorageError: the records cannot be read.
        """
        low, high = self._place(start, end)
        for at in range(low, high, RUN_RECORDS):
            entries = self._entries(at, min(at + RUN_RECORDS, high))
            for some in together(entries) if self._segment.salvaged else (entries,):
                yield from self._fetched(some)
        self._next = high

    def _place(self, start: int, end: int) -> tuple[int, int]:
        """The numbers of the entries with offsets in ``[start, end)``."""
        index, count = self._index, self._segment.count
        if index is None:
            offsets = self._walked[:, 0]
            low, high = np.searchsorted(offsets, [start, end])
            return int(low), int(high)
        low = self._next
        ahead = low < count and index[low].offset >= start
        if not (ahead and (low == 0 or index[low - 1].offset < start)):
            low = index.first_from(start, 0, count)
        # Offsets rise by at least one.
        return low, index.first_from(end, low, min(count, low + max(0, end - start)))

    def _entries(self, start: int, end: int) -> Longs:
        index = self._index
        if index is None:
            return self._walked[start:end]
        rows = np.frombuffer(index.some(start, end), ">i8").reshape(-1, FIELDS)
        return rows.astype(np.int64)

    def _fetched(self, entries: Longs) -> Iterator[RecordRun]:
        ends = entries[:, 1] + entries[:, 2]
        self._check(entries, ends)
        at = 0
        while at < len(entries):
            begin = int(entries[at, 1])
            fits = int(np.searchsorted(ends, begin + RUN_BYTES, side="right"))
            upto = max(at + 1, fits)
            stop = int(ends[upto - 1])
            some = entries[at:upto]
            bounds = np.append(some[:, 1], stop) - begin
            yield RecordRun(some[:, 0], bounds, np.frombuffer(self._read(begin, stop), np.uint8))
            at = upto

    def _check(self, entries: Longs, ends: Longs) -> None:
        """Check that the entries are of adjacent records within the segment."""
        together = (ends[:-1] == entries[1:, 1]).all() and (entries[:, 2] > 0).all()
        last = int(ends[-1])
        if (
            not together
            or int(entries[0, 1]) < FIRST_POSITION
            or last > self._segment.records_bytes
        ):
            where = self._segment.folder.where(records_name(self._segment.prefix))
            raise DamagedBackup(where, int(entries[0, 1]), "its index does not fit its records")

    def _read(self, start: int, end: int) -> bytes:
        where = self._segment.folder.where(records_name(self._segment.prefix))
        with storage_errors(where):
            self._records.seek(start)
            content = self._records.read(end - start)
        if len(content) < end - start:
            raise DamagedBackup(where, start + len(content), "the file was cut", torn=True)
        return content

    @cached_property
    def _records(self) -> BinaryIO:
        return self._segment.folder.open(records_name(self._segment.prefix))

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


@dataclass(frozen=True)
class StoredSegment(SegmentFiles):
    """A segment that can be read, and sent to a worker, which opens its files again."""

    @cached_property
    def reader(self) -> MappedSegment | FetchedSegment:
        """The reader of the segment, with open files."""
        if isinstance(self.folder, LocalFolder):
            return MappedSegment(self, self.folder.path)
        return FetchedSegment(self)

    def passed(self) -> None:
        """Close the files after the last read. Maps occupy no memory, and stay."""
        if not isinstance(self.folder, LocalFolder):
            self.__dict__.pop("reader", None)

    def __getstate__(self) -> dict[str, object]:
        """The fields, without open files."""
        names = {field.name for field in fields(self)}
        return {name: value for name, value in self.__dict__.items() if name in names}


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
            not segment.sha256,
        )
        for segment in segments
        if segment.first_offset is not None
        and segment.last_offset is not None
        and records_name(segment.prefix) in names
    ]


def runs_between(segments: Sequence[StoredSegment], start: int, end: int) -> Iterator[RecordRun]:
    """The stored records with offsets in ``[start, end)``, one or more runs for each segment."""
    for segment in segments:
        if segment.last_offset < start:
            segment.passed()
        elif segment.first_offset < end:
            yield from segment.reader.runs(start, end)
