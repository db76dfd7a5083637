"""What a topic's folder holds, by its manifest or, in a backup of the original's, by its files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import listing
from breakglass.services.topic_backup.lost import Lost, lost_of
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest, read_manifest
from breakglass.services.topic_backup.reader import LeftOut, PartitionReader, SegmentAt
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary, SegmentTally


@dataclass(frozen=True, slots=True)
class RestorableTopic:
    """One topic as it can be restored."""

    folder: Folder
    identity: TopicIdentity
    partitions: tuple[PartitionSummary, ...]
    manifest: TopicManifest | None
    """None: a backup of the original's, without settings, ids and hashes."""
    lost: tuple[Lost, ...] = ()
    """What should be there and is not, or is not what was written; as far as it was looked at."""
    salvaged: bool = False
    """Without a manifest: records had to be found again, or stray bytes passed over."""

    @property
    def partition_count(self) -> int:
        """How many partitions the topic had; of the original's, the highest index + 1."""
        highest = max((one.partition for one in self.partitions), default=-1) + 1
        return max(highest, self.identity.partition_count or 0)


def read_held(folder: Folder, topic: str) -> RestorableTopic:
    """What *folder* holds of *topic*.

    Without a manifest every index is looked at, and segments without one are read.

    Raises:
        UsageError: it holds nothing.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
    """
    manifest = read_manifest(folder)
    if manifest is not None:
        return RestorableTopic(folder, manifest.identity, manifest.partitions, manifest)
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
        tuple(Lost(*one) for pair in zip(found, readers, strict=True) for one in _damages(*pair)),
        salvaged=any(one.salvaged for one in readers),
    )


def read_sound(held: RestorableTopic, partitions: Collection[int]) -> RestorableTopic:
    """*held* without the segments of *partitions* that are not what was committed.

    Every byte of those partitions is read; what is wrong is in `RestorableTopic.lost`.
    """
    if held.manifest is None:
        return held
    lost: list[Lost] = []
    kept = []
    for part in held.partitions:
        wrong = lost_of(held.folder, part) if part.partition in partitions else ()
        prefixes = {one.prefix for one in wrong}
        lost += wrong
        whole = tuple(one for one in part.segments if one.prefix not in prefixes)
        kept.append(replace(part, segments=whole))
    return replace(held, partitions=tuple(kept), lost=tuple(lost))


def _damages(number: int, reader: PartitionReader) -> Iterator[tuple[int, LeftOut]]:
    yield from ((number, one) for one in reader.damages)


def _partition(number: int, reader: PartitionReader) -> PartitionSummary:
    segments = tuple(_segment(reader, one) for one in reader.segments if not one.missing)
    missing = [one for one in reader.segments if one.missing]
    for one in missing:
        list(reader.of_segment(one))
    last = [one.last_offset for one in segments if one.last_offset is not None]
    return PartitionSummary(number, last[-1] + 1 if last else None, segments)


def _segment(reader: PartitionReader, segment: SegmentAt) -> SegmentSummary:
    tally, end = SegmentTally(), FIRST_POSITION
    for found in reader.of_segment(segment):
        tally.add(found.placed.record)
        end = found.placed.end
    return tally.summary(segment.extent.prefix, segment.extent.start_offset, end, "")
