"""Describes what can be restored from a topic's folder, and which offsets are missing and why.

The description comes from the manifest; for a backup of Kafka Backup, from the files. What no file
says is Unknown: when the backup was made, which offsets should be there, which log it is of.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from breakglass.services.errors import BreakglassError, UsageError
from breakglass.services.model import Unknown
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.group_history import read_offsets
from breakglass.services.topic_backup.layout import (
    PartitionFiles,
    Segment,
    listing,
    records_name,
    segment_index_name,
    segment_of,
)
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest, read_manifest
from breakglass.services.topic_backup.reader import LeftOut, PartitionReader
from breakglass.services.topic_backup.segment_bytes import SegmentExtent, altered
from breakglass.services.topic_backup.segment_index import open_index, read_partition_index
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary, SegmentTally


@dataclass(frozen=True, slots=True)
class Lost:
    """Part of a partition that cannot be restored as it was."""

    partition: int
    what: LeftOut
    prefix: str = ""
    """The damaged committed segment; empty if the loss was found by reading records."""

    def phrase(self, topic: str) -> str:
        """The offsets as text: ``orders-0 36..99``."""
        return f"{topic}-{self.partition} {self.what.offsets}"


def missing_of(
    names: Iterable[str], folder: Folder, part: PartitionSummary, *, sizes: bool = True
) -> tuple[Lost, ...]:
    """The segments of *part* that are missing or, with *sizes*, too short; reads no file."""
    there = set(names)
    found = []
    for segment in part.segments:
        name = records_name(segment.prefix)
        if name not in there:
            found.append(_lost(folder, part, segment, "the file is gone"))
        elif sizes and (size := folder.size(name) or 0) < segment.records_bytes:
            why = f"it has {size:,} bytes, and {segment.records_bytes:,} were committed"
            found.append(_lost(folder, part, segment, why))
    return tuple(found)


def _lost(folder: Folder, part: PartitionSummary, one: SegmentSummary, why: str) -> Lost:
    where, size = folder.where(records_name(one.prefix)), one.records_bytes
    left_out = LeftOut(where, 0, size, why, True, one.first_offset, one.next_offset)
    return Lost(part.partition, left_out, one.prefix)


@dataclass(frozen=True, slots=True)
class RestorableTopic:
    """A topic as it can be restored."""

    folder: Folder
    identity: TopicIdentity
    partitions: tuple[PartitionSummary, ...]
    manifest: TopicManifest | None
    """None for a backup of Kafka Backup, which has no settings, ids and hashes."""
    lost: tuple[Lost, ...] = ()
    """Missing or changed parts of the backup, as far as it was checked."""
    salvaged: bool = False
    """Whether, without a manifest, records had to be searched for or stray bytes skipped; or, with
    one, it is of a copy that could not prove all that it has.
    """

    @property
    def partition_count(self) -> int:
        """The topic's number of partitions; without a manifest, the highest index + 1."""
        highest = max((partition.partition for partition in self.partitions), default=-1) + 1
        return max(highest, self.identity.partition_count or 0)


def read_held(folder: Folder, topic: str) -> RestorableTopic:
    """Describe the backup of *topic* in *folder*.

    Without a manifest, every index is read, and each segment without an index is read whole.

    Raises:
        UsageError: the folder is empty.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
    """
    manifest = read_manifest(folder)
    if manifest is not None:
        parts = manifest.partitions
        salvaged = any(part.unproved for part in parts)
        return RestorableTopic(folder, manifest.identity, parts, manifest, salvaged=salvaged)
    found = listing(folder.names())
    if not found:
        raise UsageError(f"{folder.where()} holds no segments: name the folder of a topic.")
    readers = [PartitionReader(folder, number, None) for number in found]
    partitions = tuple(map(_partition, found, readers))
    return RestorableTopic(
        folder,
        TopicIdentity(topic),
        partitions,
        None,
        tuple(
            Lost(number, damage)
            for number, reader in zip(found, readers, strict=True)
            for damage in reader.damages
        ),
        salvaged=any(reader.salvaged for reader in readers),
    )


def read_sound(held: RestorableTopic, partitions: Collection[int]) -> RestorableTopic:
    """*held* without the segments of *partitions* that differ from the commit.

    Reads every byte of those partitions; `RestorableTopic.lost` lists the differences.
    """
    if held.manifest is None:
        return held
    lost: list[Lost] = []
    kept = []
    for part in held.partitions:
        asked = part.segments if part.partition in partitions else ()
        judged = ((segment, altered(held.folder, segment)) for segment in asked)
        wrong = [_lost(held.folder, part, one, why) for one, why in judged if why and one.count]
        prefixes = {lost.prefix for lost in wrong}
        lost += wrong
        whole = tuple(segment for segment in part.segments if segment.prefix not in prefixes)
        kept.append(replace(part, segments=whole))
    return replace(held, partitions=tuple(kept), lost=tuple(lost))


def _partition(number: int, reader: PartitionReader) -> PartitionSummary:
    segments = tuple(
        segment_summary(reader, segment) for segment in reader.segments if not segment.missing
    )
    missing = [segment for segment in reader.segments if segment.missing]
    for at in missing:
        list(reader.of_segment(at))
    last = [segment.last_offset for segment in segments if segment.last_offset is not None]
    return PartitionSummary(number, last[-1] + 1 if last else None, segments)


def segment_summary(reader: PartitionReader, segment: SegmentExtent) -> SegmentSummary:
    """The figures of one segment without a manifest; reads its records."""
    tally, end = SegmentTally(), FIRST_POSITION
    for found in reader.of_segment(segment):
        tally.add(found.record)
        end = found.end
    return tally.summary(segment.prefix, segment.start_offset, end, "")


PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """One partition of a folder without manifest, as its indexes describe it."""

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
    """One topic as its files describe it, without a manifest.

    What no file says is Unknown. Indexes are read, but no records.
    """

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
    partitions = tuple(_found_partition(folder, number, files) for number, files in found.items())
    return FoundFiles(partitions, _groups(folder, found))


def _found_partition(folder: Folder, number: int, files: PartitionFiles) -> FoundPartition:
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
        return Unknown(f"{name} is missing or no index: `backup repair` makes it")
    with index:
        last = index.last
        if last is None:
            return _Indexed(0, None, None, 0)
        return _Indexed(len(index), index[0].offset, last.offset, last.end)


def _missing(folder: Folder, number: int, present: Collection[Segment]) -> Iterator[str]:
    """The segments that the partition's index names and the folder has not."""
    try:
        named = read_partition_index(folder, number)
    except BreakglassError as error:
        yield f"{error}; `backup repair` makes the index again"
        return
    there = {segment.start_offset for segment in present}
    for entry in named:
        if entry.start_offset not in there:
            yield f"{folder.where(records_name(entry.prefix))}: the partition's index names it"


def _groups(folder: Folder, partitions: Collection[int]) -> int | Unknown:
    groups: set[str] = set()
    for number in partitions:
        try:
            groups |= read_offsets(folder, number).keys()
        except BreakglassError as error:
            return Unknown(str(error))
    return len(groups)


def writers(folder: Folder) -> list[str]:
    """The processes that have a segment or an index of *folder* open, as far as this user sees.

    Kafka Backup's connector keeps them open and locks nothing. Empty where the system does not say.
    """
    if not isinstance(folder, LocalFolder):
        return []
    path = folder.path.resolve()
    found = []
    for process in PROCESSES.glob("[0-9]*"):
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
