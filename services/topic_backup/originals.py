"""Describes a folder that Kafka Backup wrote by its files alone, as it has no manifest.

What no file says is Unknown: when the backup was made, which offsets should be there, which log it
is of. Indexes are read, but no records; a summary of a segment reads its records.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.errors import BreakglassError
from breakglass.services.model import Unknown
from breakglass.services.topic_backup import consumer_offsets, partition_index
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.folder_contents import segment_summary
from breakglass.services.topic_backup.layout import (
    PartitionFiles,
    Segment,
    listing,
    records_name,
    segment_index_name,
    segment_of,
)
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.segment_index import open_index
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.summary import SegmentSummary

PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """One partition as its indexes describe it."""

    partition: int
    first_offset: int | None | Unknown
    """None: it has no records."""
    last_offset: int | None | Unknown
    records: int | Unknown
    bytes: int
    segments: int
    damage: tuple[str, ...]
    """Segments that are missing or too short; only `verify` finds changed bytes."""
    stray: int = 0
    """Bytes behind the last indexed records: no command reads them."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """One topic as its files describe it."""

    partitions: tuple[FoundPartition, ...]
    groups: int | Unknown
    """How many consumer groups have offsets, the last ones that were saved."""


@dataclass(frozen=True, slots=True)
class _Indexed:
    """What one segment's index says; offsets are None if it names no record."""

    records: int
    first: int | None
    last: int | None
    end: int
    """Where the last record ends in the records file."""


def found_files(folder: Folder, names: Collection[str]) -> FoundFiles:
    """Describe the files *names* of *folder*.

    Raises:
        DamagedBackup: two names stand for the same segment.
        StorageError: a file cannot be read.
    """
    found = listing(names)
    partitions = tuple(_partition(folder, number, files) for number, files in found.items())
    return FoundFiles(partitions, _groups(folder, found))


def _partition(folder: Folder, number: int, files: PartitionFiles) -> FoundPartition:
    present = [segment for segment in files.segments if segment.has_records]
    sizes = [folder.size(records_name(segment.prefix)) or 0 for segment in present]
    indexed = [_indexed(folder, segment) for segment in present]
    known = [index for index in indexed if isinstance(index, _Indexed)]
    unknown = next((index for index in indexed if isinstance(index, Unknown)), None)
    firsts = [index.first for index in known if index.first is not None]
    lasts = [index.last for index in known if index.last is not None]
    return FoundPartition(
        partition=number,
        first_offset=unknown or (firsts[0] if firsts else None),
        last_offset=unknown or (lasts[-1] if lasts else None),
        records=unknown or sum(index.records for index in known),
        bytes=sum(sizes),
        segments=len(present),
        stray=sum(
            max(0, size - (index.end or FIRST_POSITION))
            for size, index in zip(sizes, indexed, strict=True)
            if isinstance(index, _Indexed)
        ),
        damage=(
            *_missing(folder, number, present),
            *(
                f"{folder.where(records_name(segment.prefix))}: it has {size:,} bytes, and its "
                f"index names {index.end:,}"
                for segment, size, index in zip(present, sizes, indexed, strict=True)
                if isinstance(index, _Indexed) and size < index.end
            ),
        ),
    )


def _indexed(folder: Folder, segment: Segment) -> _Indexed | Unknown:
    index = open_index(folder, segment.prefix)
    if index is None:
        name = segment_index_name(segment.prefix)
        return Unknown(f"{name} is missing or no index: `backup reindex` makes it")
    with index:
        last = index.last
        if last is None:
            return _Indexed(0, None, None, 0)
        return _Indexed(len(index), index[0].offset, last.offset, last.end)


def _missing(folder: Folder, number: int, present: Collection[Segment]) -> Iterator[str]:
    """The segments that the partition's index names and the folder has not."""
    try:
        named = partition_index.read(folder, number)
    except BreakglassError as error:
        yield f"{error}; `backup reindex` makes the index again"
        return
    there = {segment.start_offset for segment in present}
    for entry in named:
        if entry.start_offset not in there:
            yield f"{folder.where(records_name(entry.prefix))}: the partition's index names it"


def _groups(folder: Folder, partitions: Collection[int]) -> int | Unknown:
    groups: set[str] = set()
    for number in partitions:
        try:
            groups |= consumer_offsets.read(folder, number).keys()
        except BreakglassError as error:
            return Unknown(str(error))
    return len(groups)


@dataclass(frozen=True, slots=True)
class FoundSegments:
    """The segments of one partition, oldest first; their summaries are read when asked for."""

    reader: PartitionReader
    sizes: tuple[int, ...]
    """Bytes of each records file."""

    @property
    def summaries(self) -> Iterator[SegmentSummary]:
        """A summary of each segment, which reads its records; ends before the first damaged one.

        Records that damage hides may be newer than those that are left.
        """
        for segment in self.reader.segments:
            summary = segment_summary(self.reader, segment)
            if self.reader.damages:
                return
            yield summary


def found_segments(folder: Folder, number: int) -> FoundSegments:
    """The segments of partition *number* of *folder*."""
    reader = PartitionReader(folder, number, None)
    sizes = (folder.size(records_name(segment.prefix)) for segment in reader.segments)
    return FoundSegments(reader, tuple(size or 0 for size in sizes))


def writers(folder: Folder, processes: Path = PROCESSES) -> list[str]:
    """The processes that have a segment or an index of *folder* open, as far as this user sees.

    Kafka Backup's connector keeps them open and locks nothing. Empty where the system does not say.
    """
    if not isinstance(folder, LocalFolder):
        return []
    path = folder.path.resolve()
    found = []
    for process in processes.glob("[0-9]*"):
        if int(process.name) != os.getpid() and (name := _open_file(process, path)):
            found.append(f"process {process.name} has {name} open")
    return sorted(found)


def _open_file(process: Path, folder: Path) -> str | None:
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return None
    for descriptor in descriptors:
        try:
            target = Path(os.readlink(descriptor))
        except OSError:
            continue
        if target.parent == folder and (
            segment_of(target.name) or target.name.startswith("index_partition_")
        ):
            return target.name
    return None
