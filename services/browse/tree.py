"""The tree of a backup location, or of the cluster's topics, read one branch at a time.

A topic with a manifest is described by its manifest. Without a manifest, the figures come from
file names, file sizes, and the first and last index entries. No record is read.
Of a topic of the cluster, each broker says where its replicas begin and end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    LATEST,
    ask_brokers,
    list_offsets,
    offset_of,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.topic_backup.catalog import held_topics
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import (
    Segment,
    listing,
    records_name,
    segment_index_name,
)
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.notes import Verified, read_verified
from breakglass.services.topic_backup.segment_index import open_index
from breakglass.services.topic_backup.store.blobs import Key
from breakglass.services.topic_backup.store.store import open_store
from breakglass.services.topic_backup.summary import EXPECTED, PartitionSummary, SegmentSummary

NO_INDEX = Unknown("it has no index: `breakglass backup repair --write` makes one")
MISSING = "missing"
NO_MANIFEST = Unknown("without a manifest it is not recorded")
NO_SIZE = Unknown("its broker does not say how large it is")

Figure: TypeAlias = int | Unknown | None
"""A number; None if no number applies, as for an empty segment."""


@dataclass(frozen=True, slots=True)
class SegmentNode:
    """One segment."""

    url: str
    folder: str
    partition: int
    start_offset: int
    """The offset in the segment's name."""
    prefix: str
    first_offset: Figure
    last_offset: Figure
    records: Figure
    bytes: int
    first_ms: Figure
    last_ms: Figure
    lost: Figure
    note: str = ""
    """What is unusual about the segment: ``not committed``, `MISSING`."""

    @property
    def address(self) -> str:
        return f"backup:{self.url}/{self.folder}/{self.partition}"

    @property
    def missing(self) -> bool:
        """Whether the manifest names the segment but its records file is missing."""
        return self.note == MISSING


@dataclass(frozen=True, slots=True)
class PartitionNode:
    """One partition with its segments, sorted by offset."""

    url: str
    folder: str
    partition: int
    segments: tuple[SegmentNode, ...]

    @property
    def address(self) -> str:
        """The address, as `services.divergence.address` parses it."""
        return f"backup:{self.url}/{self.folder}/{self.partition}"

    @property
    def below(self) -> tuple[tuple[str, SegmentNode], ...]:
        """What is below it in the tree, each with its key."""
        return tuple((segment.prefix, segment) for segment in self.segments)

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)

    @property
    def records(self) -> Figure:
        return total([segment.records for segment in self.segments])

    @property
    def lost(self) -> Figure:
        return total([segment.lost for segment in self.segments])

    @property
    def missing(self) -> int:
        """How many of its segments are missing."""
        return sum(segment.missing for segment in self.segments)

    @property
    def first_offset(self) -> Figure:
        held = [
            segment.first_offset for segment in self.segments if segment.first_offset is not None
        ]
        return held[0] if held else None

    @property
    def last_offset(self) -> Figure:
        held = [segment.last_offset for segment in self.segments if segment.last_offset is not None]
        return held[-1] if held else None


@dataclass(frozen=True, slots=True)
class TopicNode:
    """The folder of one topic."""

    url: str
    folder: str
    """``orders``, ``orders~2``."""


LIVE = "topics of the cluster"
"""In place of a location's URL."""


@dataclass(frozen=True, slots=True)
class LiveReplica:
    """One broker's replica, as that broker tells it."""

    address: str
    broker: int
    first_offset: Figure
    last_offset: Figure
    bytes: int | Unknown
    note: str
    """``leads``, ``in sync``, ``not in sync``, or why its broker gave no answer."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """One partition of a topic of the cluster."""

    address: str
    partition: int
    replicas: tuple[LiveReplica, ...]

    @property
    def below(self) -> tuple[tuple[str, LiveReplica], ...]:
        """What is below it in the tree, each with its key."""
        return tuple((str(replica.broker), replica) for replica in self.replicas)


def live_topics(client: ReadClient) -> tuple[TopicNode, ...]:
    """The topics of the cluster. Raises Unreachable, WrongCluster."""
    deadline = Deadline.after(patience.SNAPSHOT)
    client.describe(deadline)
    topics = {state.partition.topic for state in client.partitions((), deadline)}
    return tuple(TopicNode(LIVE, topic) for topic in sorted(topics))


def live_partitions(client: ReadClient, topic: str) -> tuple[LivePartition, ...]:
    """The partitions of *topic*, and what the broker of each replica says of it.

    Raises: Unreachable, WrongCluster, NotAuthorized.
    """
    deadline = Deadline.after(patience.REQUEST)
    client.describe(deadline)
    states = client.partitions((topic,), deadline)
    asked: dict[int, list[TopicPartition]] = {}
    for state in states:
        for broker in state.assignment:
            asked.setdefault(broker, []).append(state.partition)

    def bounds(broker: int, held: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        start, end = (
            list_offsets(client.sender, broker, held, moment, deadline)
            for moment in (EARLIEST, LATEST)
        )
        return {one: (offset_of(start[one]), offset_of(end[one])) for one in held}

    def sizes(broker: int, held: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        return {one: log.size for one, log in client.log_dirs(broker, list(held), deadline).items()}

    def told(broker: int) -> list[dict[TopicPartition, Any]]:
        return [ask_brokers({broker: asked[broker]}, each) for each in (bounds, sizes)]

    with ThreadPoolExecutor(max(len(asked), 1), "replicas") as threads:
        answers = dict(zip(asked, threads.map(told, asked), strict=True))
    return tuple(
        LivePartition(
            f"topic:{topic}/{state.partition.partition}",
            state.partition.partition,
            tuple(_live_replica(state, broker, *answers[broker]) for broker in state.assignment),
        )
        for state in sorted(states, key=lambda state: state.partition)
    )


def _live_replica(
    state: PartitionState,
    broker: int,
    bounds: Mapping[TopicPartition, Any],
    sizes: Mapping[TopicPartition, Any],
) -> LiveReplica:
    found, size = bounds[state.partition], sizes.get(state.partition, NO_SIZE)
    first, end = (found, found) if isinstance(found, Unknown) else found
    last: Figure = end
    if isinstance(end, int):
        last = end - 1 if end != first else None
    unknown = next((one for one in (first, end) if isinstance(one, Unknown)), None)
    role = "in sync" if broker in state.isr else "not in sync"
    return LiveReplica(
        f"replica:{broker}/{state.partition.topic}/{state.partition.partition}",
        broker,
        None if last is None else first,
        last,
        size,
        unknown.reason if unknown else "leads" if broker == state.leader else role,
    )


def total(figures: Sequence[Figure]) -> Figure:
    """The sum, or Unknown if any figure is Unknown."""
    unknown = next((figure for figure in figures if isinstance(figure, Unknown)), None)
    return unknown or sum(figure for figure in figures if isinstance(figure, int))


def topics_at(url: str, key: Key | None = None) -> tuple[TopicNode, ...]:
    """The topic folders at *url*.

    Raises:
        UsageError: the location does not exist or has no backup.
        StorageError: the location cannot be listed.
    """
    return tuple(TopicNode(url, topic.name) for topic in held_topics(open_store(url, key)))


@dataclass(frozen=True, slots=True)
class TopicContents:
    """The content of a topic's folder."""

    partitions: tuple[PartitionNode, ...]
    verified: Verified | None
    commit: int | None
    """None: Kafka Backup made the folder, without a manifest."""


def partitions_in(topic: TopicNode, key: Key | None = None) -> TopicContents:
    """The partitions in a topic's folder.

    Raises:
        UsageError: the folder is encrypted, and *key* is None.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
        StorageError, DamagedBackup: the files cannot be listed.
    """
    folder = open_store(topic.url, key).folder(topic.folder)
    manifest = read_manifest(folder)
    names = frozenset(folder.names())
    if manifest is None:
        found = listing(names)
        partitions = tuple(
            PartitionNode(
                topic.url,
                topic.folder,
                number,
                # Without a manifest, segments are described by their indexes if those can be read.
                tuple(
                    _by_index(topic, folder, segment)
                    for segment in files.segments
                    if segment.has_records
                ),
            )
            for number, files in sorted(found.items())
        )
        return TopicContents(partitions, None, None)
    return TopicContents(
        _committed_partitions(topic, folder, manifest, names), _verified(folder), manifest.commit
    )


def _verified(folder: Folder) -> Verified | None:
    """The last verification; None if there is none or it cannot be read."""
    try:
        return read_verified(folder)
    except BreakglassError:
        return None


def _committed_partitions(
    topic: TopicNode, folder: Folder, manifest: TopicManifest, names: Collection[str]
) -> tuple[PartitionNode, ...]:
    flat = listing(names)
    nodes = []
    for partition in manifest.partitions:
        named = {segment.prefix for segment in partition.segments}
        files = flat.get(partition.partition)
        more = (
            [segment for segment in files.segments if segment.prefix not in named] if files else []
        )
        segments = (
            *(_committed(topic, partition, segment, names) for segment in partition.segments),
            *(
                replace(_by_index(topic, folder, segment), note="not committed")
                for segment in more
                if segment.has_records
            ),
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
        "" if there else MISSING,
    )


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
    """The first offset, the last offset and the number of records, according to the index."""
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
