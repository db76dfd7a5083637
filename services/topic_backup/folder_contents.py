"""Describes what can be restored from a topic's folder, and which offsets are missing and why.

The description comes from the manifest; for a backup of Kafka Backup, from the files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import listing, records_name
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest, read_manifest
from breakglass.services.topic_backup.reader import LeftOut, PartitionReader, SegmentExtent
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.soundness import altered
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
