"""Committed records of a segment that cannot be mapped: read by range, some megabytes at a time.

Readers go forward, so the place in the index where the last ones ended is where the next begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import BinaryIO

import numpy as np

from services.errors import DamagedBackup
from services.pipeline.segment_files import FIELDS, Longs, RecordRun, SegmentFiles, together
from services.topic_backup.folder import storage_errors
from services.topic_backup.layout import records_name
from services.topic_backup.segment_index import SegmentIndex, open_index
from services.topic_backup.segment_reader import FIRST_POSITION

RUN_BYTES = 16 * 1024 * 1024
RUN_RECORDS = 100_000


class FetchedSegment:
    """One segment, with its files open."""

    def __init__(self, segment: SegmentFiles) -> None:
        self._segment = segment
        self._next = 0
        """Number of the entry behind those that were read last."""

    def runs(self, start: int, end: int) -> Iterator[RecordRun]:
        """The records with offsets in ``[start, end)``, in runs that fit into memory.

        Raises:
            DamagedBackup, StorageError: they cannot be read.
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
        # Offsets rise by one at least.
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
        """Return if the entries name records one behind the other, within the segment."""
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
        """The index, if it is there and fits as far as its ends tell."""
        segment = self._segment
        index = None if segment.salvaged else open_index(segment.folder, segment.prefix)
        if index is None or len(index) < segment.count:
            return None
        first, last = index[0], index[segment.count - 1]
        fits = (first.offset, first.position) == (segment.first_offset, FIRST_POSITION)
        if not fits or (last.offset, last.end) != (segment.last_offset, segment.records_bytes):
            return None
        return index
