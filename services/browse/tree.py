"""A place of backups as a tree that is looked up branch by branch, never as a whole.

Of a topic with a manifest everything is read from that; of one without, from names and sizes of
files and from the first and last entries of indexes. No record is read for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from breakglass.services.errors import BreakglassError
from breakglass.services.model import Unknown
from breakglass.services.topic_backup import verified
from breakglass.services.topic_backup.catalog import held_topics
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import (
    Segment,
    listing,
    records_name,
    segment_index_name,
)
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.segment_index import open_index
from breakglass.services.topic_backup.status import EXPECTED
from breakglass.services.topic_backup.store.key import Key
from breakglass.services.topic_backup.store.store import open_store
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary

NO_INDEX = Unknown("it has no index: `breakglass backup reindex` makes one")
GONE = "gone"
NO_MANIFEST = Unknown("without a manifest nobody noted it")

Figure: TypeAlias = int | Unknown | None
"""None: there is none, as in an empty segment."""


@dataclass(frozen=True, slots=True)
class SegmentNode:
    """One segment."""

    url: str
    folder: str
    partition: int
    start_offset: int
    """From its name."""
    prefix: str
    first_offset: Figure
    last_offset: Figure
    records: Figure
    bytes: int
    first_ms: Figure
    last_ms: Figure
    lost: Figure
    note: str = ""
    """What is out of the ordinary: ``not committed``, `GONE`."""

    @property
    def gone(self) -> bool:
        """The manifest names it, and its records are not there."""
        return self.note == GONE


@dataclass(frozen=True, slots=True)
class PartitionNode:
    """One partition, and its segments by offset."""

    url: str
    folder: str
    partition: int
    segments: tuple[SegmentNode, ...]

    @property
    def address(self) -> str:
        """As `services.divergence.address` reads it."""
        return f"backup:{self.url}/{self.folder}/{self.partition}"

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.segments)

    @property
    def records(self) -> Figure:
        return total([one.records for one in self.segments])

    @property
    def lost(self) -> Figure:
        return total([one.lost for one in self.segments])

    @property
    def gone(self) -> int:
        """How many of its segments are not there."""
        return sum(one.gone for one in self.segments)

    @property
    def first_offset(self) -> Figure:
        held = [one.first_offset for one in self.segments if one.first_offset is not None]
        return held[0] if held else None

    @property
    def last_offset(self) -> Figure:
        held = [one.last_offset for one in self.segments if one.last_offset is not None]
        return held[-1] if held else None


@dataclass(frozen=True, slots=True)
class TopicNode:
    """One folder of a topic."""

    url: str
    folder: str
    """``orders``, ``orders~2``."""


def total(figures: Sequence[Figure]) -> Figure:
    """The sum; Unknown where one is."""
    unknown = next((one for one in figures if isinstance(one, Unknown)), None)
    return unknown or sum(one for one in figures if isinstance(one, int))


def topics_at(url: str, key: Key | None = None) -> tuple[TopicNode, ...]:
    """The topics' folders at *url*.

    Raises:
        UsageError: there is no such place, or no backup in it.
        StorageError: it cannot be listed.
    """
    return tuple(TopicNode(url, one.name) for one in held_topics(open_store(url, key)))


@dataclass(frozen=True, slots=True)
class TopicContents:
    """What is in a topic's folder."""

    partitions: tuple[PartitionNode, ...]
    verified: verified.Verified | None
    commit: int | None
    """None: made by Kafka Backup, without a manifest."""


def partitions_in(topic: TopicNode, key: Key | None = None) -> TopicContents:
    """The partitions in a topic's folder.

    Raises:
        UsageError: it is encrypted, and there is no key.
        MalformedInput, UnsupportedSchema: its manifest cannot be read.
        StorageError, DamagedBackup: its files cannot be listed.
    """
    folder = open_store(topic.url, key).folder(topic.folder)
    manifest = read_manifest(folder)
    names = frozenset(folder.names())
    if manifest is None:
        found = listing(names)
        partitions = tuple(
            PartitionNode(topic.url, topic.folder, number, _bare(topic, folder, files.segments))
            for number, files in sorted(found.items())
        )
        return TopicContents(partitions, None, None)
    return TopicContents(
        _committed_partitions(topic, folder, manifest, names),
        _verified(folder),
        manifest.commit,
    )


def _verified(folder: Folder) -> verified.Verified | None:
    """The last verification; what cannot be read of it is none."""
    try:
        return verified.read(folder)
    except BreakglassError:
        return None


def _committed_partitions(
    topic: TopicNode, folder: Folder, manifest: TopicManifest, names: Collection[str]
) -> tuple[PartitionNode, ...]:
    flat = listing(names)
    nodes = []
    for partition in manifest.partitions:
        named = {one.prefix for one in partition.segments}
        files = flat.get(partition.partition)
        more = [one for one in files.segments if one.prefix not in named] if files else []
        segments = (
            *(_committed(topic, partition, one, names) for one in partition.segments),
            *(_uncommitted(topic, folder, one) for one in more if one.has_records),
        )
        nodes.append(PartitionNode(topic.url, topic.folder, partition.partition, segments))
    return tuple(nodes)


def _committed(
    topic: TopicNode, partition: PartitionSummary, one: SegmentSummary, names: Collection[str]
) -> SegmentNode:
    there = records_name(one.prefix) in names
    lost = sum(count for reason, count in one.missing.items() if reason not in EXPECTED)
    return SegmentNode(
        topic.url,
        topic.folder,
        partition.partition,
        one.start_offset,
        one.prefix,
        one.first_offset,
        one.last_offset,
        one.count,
        one.records_bytes if there else 0,
        one.first_timestamp,
        one.last_timestamp,
        lost,
        "" if there else GONE,
    )


def _uncommitted(topic: TopicNode, folder: Folder, one: Segment) -> SegmentNode:
    return replace(_by_index(topic, folder, one), note="not committed")


def _bare(topic: TopicNode, folder: Folder, segments: Sequence[Segment]) -> tuple[SegmentNode, ...]:
    """Segments that no manifest tells of: by their index, or not at all."""
    return tuple(_by_index(topic, folder, one) for one in segments if one.has_records)


def _by_index(topic: TopicNode, folder: Folder, one: Segment) -> SegmentNode:
    first, last, records = _indexed(folder, one.prefix)
    return SegmentNode(
        topic.url,
        topic.folder,
        one.partition,
        one.start_offset,
        one.prefix,
        first,
        last,
        records,
        folder.size(records_name(one.prefix)) or 0,
        NO_MANIFEST,
        NO_MANIFEST,
        NO_MANIFEST,
    )


def _indexed(folder: Folder, prefix: str) -> tuple[Figure, Figure, Figure]:
    """First and last offset and number of records, as the index has them."""
    try:
        index = open_index(folder, prefix)
        if index is None:
            return NO_INDEX, NO_INDEX, NO_INDEX
        with index:
            last = index.last
            if last is None:
                return None, None, 0
            return index[0].offset, last.offset, len(index)
    except BreakglassError as error:
        unread = Unknown(f"{segment_index_name(prefix)}: {error}")
        return unread, unread, unread
