"""Committed records of one partition by arrays: offsets and places from the indexes, bytes mapped.

An index that is missing or does not fit is made anew in memory, from the records. What does not
lie in a folder of this machine as it is cannot be mapped: see `pipeline.fetched`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from services.topic_backup.folder import Folder, LocalFolder, storage_errors
from services.topic_backup.layout import records_name, segment_index_name
from services.topic_backup.segment_index import Entry
from services.topic_backup.segment_reader import FIRST_POSITION, read_segment
from services.topic_backup.summary import SegmentSummary

if TYPE_CHECKING:
    from services.pipeline.fetched import FetchedSegment

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FIELDS = len(Entry._fields)


@dataclass(frozen=True, slots=True)
class Run:
    """Records that lie one behind the other in one segment."""

    offsets: Longs
    bounds: Longs
    """Where each begins in *data*, and where the last one ends; begins with 0."""
    data: Bytes


@dataclass(frozen=True)
class StoredSegment:
    """One committed segment with records."""

    folder: Folder
    prefix: str
    records_bytes: int
    count: int
    first_offset: int
    last_offset: int

    @cached_property
    def entries(self) -> Longs:
        """Offset, position and length of each record, a row each; big-endian where mapped."""
        held = self._indexed()
        return held if held is not None else self.walked()

    @cached_property
    def data(self) -> Bytes:
        """The records file, mapped."""
        path = self._local.path / records_name(self.prefix)
        with storage_errors(str(path)):
            return np.memmap(path, np.uint8, "r", shape=(self.records_bytes,))

    @property
    def mapped(self) -> bool:
        """Whether its files can be mapped."""
        return isinstance(self.folder, LocalFolder)

    @cached_property
    def fetched(self) -> FetchedSegment:
        """The same where they cannot."""
        from services.pipeline.fetched import FetchedSegment

        return FetchedSegment(self)

    def __getstate__(self) -> dict[str, object]:
        """What it was made of; files are opened anew where it arrives."""
        names = {one.name for one in fields(self)}
        return {name: value for name, value in self.__dict__.items() if name in names}

    def run(self, start: int, end: int) -> Run | None:
        """The records with offsets in ``[start, end)``, mapped; None where there are none."""
        found = self._cut(self.entries, start, end)
        if isinstance(found, _Unfit):
            # Only an index can be unfit, so the second time there is none.
            self.__dict__["entries"] = self.walked()
            found = self._cut(self.entries, start, end)
        assert not isinstance(found, _Unfit)
        return found

    def _cut(self, entries: Longs, start: int, end: int) -> Run | None | _Unfit:
        low = bisect_left(entries, start, key=_offset_of)
        high = bisect_left(entries, end, low, key=_offset_of)
        if low == high:
            return None
        some = entries[low:high].astype(np.int64)
        ends = some[:, 1] + some[:, 2]
        begin, stop = int(some[0, 1]), int(ends[-1])
        if not (ends[:-1] == some[1:, 1]).all() or not FIRST_POSITION <= begin < stop:
            return _Unfit()
        return Run(some[:, 0], np.append(some[:, 1], stop) - begin, self.data[begin:stop])

    @property
    def _local(self) -> LocalFolder:
        assert isinstance(self.folder, LocalFolder)
        return self.folder

    def _indexed(self) -> Longs | None:
        path = self._local.path / segment_index_name(self.prefix)
        try:
            entries = np.memmap(path, ">i8", "r", FIRST_POSITION, (self.count, FIELDS))
        except (OSError, ValueError):
            return None
        first, last = entries[0], entries[-1]
        fits = (
            (int(first[0]), int(first[1])) == (self.first_offset, FIRST_POSITION)
            and int(last[0]) == self.last_offset
            and int(last[1] + last[2]) == self.records_bytes
        )
        return entries if fits else None

    def walked(self) -> Longs:
        """The entries by the records alone."""
        placed = read_segment(self.folder, records_name(self.prefix), end=self.records_bytes)
        return np.array([Entry.of(one) for one in placed], np.int64).reshape(-1, FIELDS)


class _Unfit:
    """An index that does not name records one behind the other."""


def _offset_of(entry: Longs) -> int:
    return int(entry[0])


def stored_segments(folder: Folder, segments: Sequence[SegmentSummary]) -> list[StoredSegment]:
    """Those of *segments* that hold records and are still there, by offset."""
    names = set(folder.names())
    return [
        StoredSegment(
            folder,
            one.prefix,
            one.records_bytes,
            one.count,
            one.first_offset,
            one.last_offset,
        )
        for one in segments
        if one.first_offset is not None
        and one.last_offset is not None
        and records_name(one.prefix) in names
    ]


def runs_between(segments: Sequence[StoredSegment], start: int, end: int) -> Iterator[Run]:
    """The stored records with offsets in ``[start, end)``, a run or some for each segment."""
    for segment in segments:
        if segment.last_offset < start:
            segment.__dict__.pop("fetched", None)
        elif segment.first_offset < end and not segment.mapped:
            yield from segment.fetched.runs(start, end)
        elif segment.first_offset < end:
            run = segment.run(start, end)
            if run is not None:
                yield run
