"""Committed records of one partition by arrays, segment by segment, wherever they lie.

In a folder of this machine files are mapped (`mmap_segment`), elsewhere they are read by range
(`ranged_segment`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from services.pipeline.mmap_segment import MappedSegment
from services.pipeline.ranged_segment import FetchedSegment
from services.pipeline.segment_files import RecordRun, SegmentFiles
from services.topic_backup.folder import Folder, LocalFolder
from services.topic_backup.layout import records_name
from services.topic_backup.summary import SegmentSummary


@dataclass(frozen=True)
class StoredSegment(SegmentFiles):
    """A segment that can be read, and sent to a worker, which opens its files anew."""

    @cached_property
    def reader(self) -> MappedSegment | FetchedSegment:
        """What reads it, with its files open."""
        if isinstance(self.folder, LocalFolder):
            return MappedSegment(self, self.folder.path)
        return FetchedSegment(self)

    def passed(self) -> None:
        """Give up what is open of it: readers go forward. Maps hold nothing, and stay."""
        if not isinstance(self.folder, LocalFolder):
            self.__dict__.pop("reader", None)

    def __getstate__(self) -> dict[str, object]:
        """What it was made of."""
        names = {one.name for one in fields(self)}
        return {name: value for name, value in self.__dict__.items() if name in names}


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
            not one.sha256,
        )
        for one in segments
        if one.first_offset is not None
        and one.last_offset is not None
        and records_name(one.prefix) in names
    ]


def runs_between(segments: Sequence[StoredSegment], start: int, end: int) -> Iterator[RecordRun]:
    """The stored records with offsets in ``[start, end)``, a run or some for each segment."""
    for segment in segments:
        if segment.last_offset < start:
            segment.passed()
        elif segment.first_offset < end:
            yield from segment.reader.runs(start, end)
