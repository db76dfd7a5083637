"""What a topic's folder holds, by its manifest or, in a backup of the original's, by its files."""

from __future__ import annotations

from dataclasses import dataclass

from services.errors import UsageError
from services.topic_backup.extent import Extent
from services.topic_backup.folder import Folder
from services.topic_backup.layout import listing, records_name
from services.topic_backup.manifest import TopicIdentity, TopicManifest, read_manifest
from services.topic_backup.reader import PartitionReader
from services.topic_backup.segment_reader import FIRST_POSITION, read_segment
from services.topic_backup.summary import PartitionSummary, SegmentSummary, Tally


@dataclass(frozen=True, slots=True)
class Held:
    """One topic as it can be restored."""

    folder: Folder
    identity: TopicIdentity
    partitions: tuple[PartitionSummary, ...]
    manifest: TopicManifest | None
    """None: a backup of the original's, without settings, ids and hashes."""

    @property
    def partition_count(self) -> int:
        """How many partitions the topic had; of the original's, the highest index + 1."""
        highest = max((one.partition for one in self.partitions), default=-1) + 1
        return max(highest, self.identity.partition_count or 0)


def read_held(folder: Folder, topic: str) -> Held:
    """What *folder* holds of *topic*.

    Without a manifest every index is looked at, and segments without one are read.

    Raises:
        UsageError: it holds nothing.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
        DamagedBackup: a segment of a backup without a manifest cannot be read.
    """
    manifest = read_manifest(folder)
    if manifest is not None:
        return Held(folder, manifest.identity, manifest.partitions, manifest)
    found = listing(folder.names())
    if not found:
        raise UsageError(f"{folder.where()} holds no segments: name the folder of a topic.")
    partitions = tuple(_partition(folder, number) for number in found)
    return Held(folder, TopicIdentity(topic), partitions, None)


def _partition(folder: Folder, number: int) -> PartitionSummary:
    reader = PartitionReader(folder, number, None)
    segments = tuple(_segment(folder, one) for one in reader.extents)
    last = [one.last_offset for one in segments if one.last_offset is not None]
    return PartitionSummary(number, last[-1] + 1 if last else None, segments)


def _segment(folder: Folder, extent: Extent) -> SegmentSummary:
    tally, end = Tally(), FIRST_POSITION
    for placed in read_segment(folder, records_name(extent.prefix), end=extent.end):
        tally.add(placed.record)
        end = placed.end
    return tally.summary(extent.prefix, extent.start_offset, end, "")
