"""Committed records of a segment in a folder of this machine: index and records, both mapped.

An index that is missing or does not fit is made anew in memory, from the records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from services.pipeline.segment_files import FIELDS, Bytes, Longs, RecordRun, SegmentFiles, together
from services.topic_backup.folder import storage_errors
from services.topic_backup.layout import records_name, segment_index_name
from services.topic_backup.segment_reader import FIRST_POSITION


class MappedSegment:
    """One segment, with its files mapped."""

    def __init__(self, segment: SegmentFiles, folder: Path) -> None:
        """Map the files of *segment*, which lie in *folder*, when they are first asked for."""
        self._segment = segment
        self._folder = folder

    def runs(self, start: int, end: int) -> Iterator[RecordRun]:
        """The records with offsets in ``[start, end)``: one run, or none.

        Of a salvaged segment there are more where bytes between records are left out.

        Raises:
            DamagedBackup, StorageError: they cannot be read.
        """
        if self._segment.salvaged:
            yield from self._salvaged(start, end)
            return
        found = self._cut(start, end)
        if isinstance(found, _Unfit):
            # Only an index can be unfit, so the second time there is none.
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
        """Offset, position and length of each record, a row each; big-endian where mapped."""
        held = self._indexed()
        return held if held is not None else self._segment.walked()

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
    """An index that does not name records one behind the other."""


def _offset_of(entry: Longs) -> int:
    return int(entry[0])
