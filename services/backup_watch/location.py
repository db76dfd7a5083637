"""A location of backups: its topics, the state of each, and the ends by which it is behind.

The current last stable offsets of backed-up topics, from which a backup's lag is computed.

Reads a location of backups: its topics, and a one-word state for each.

A topic that cannot be read does not hide the others. The backup reader is imported only when
a location is read, so a user who watches no backups does not wait for the import.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from breakglass.services.backup_watch.job import Life, SeenJob
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import READ_COMMITTED, read_leader_ends
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.topic_backup.catalog import PartitionStatus, TopicStatus, topic_status
from breakglass.services.topic_backup.layout import folder_name

if TYPE_CHECKING:
    from breakglass.services.topic_backup.catalog import HeldTopic
    from breakglass.services.topic_backup.store.blobs import Key

ABSENT = Unknown("the cluster has no such partition")
RECREATED = Unknown("the topic was created again since: this is a backup of the one before")
OTHER_CLUSTER = Unknown("it is a backup of another cluster")
NOT_ASKED = Unknown("the cluster was not asked yet")
NO_MANIFEST = Unknown("without a manifest nothing says how far the backup goes")


@dataclass(frozen=True, slots=True)
class LiveEnds:
    """The last stable offset of each partition, or why it is unknown."""

    cluster_id: str
    ends: Mapping[TopicPartition, int | Unknown] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)

    def lag(self, topic: TopicStatus, part: PartitionStatus) -> int | Unknown:
        """Offsets of a partition that are not in its backup yet."""
        if topic.cluster_id is not None and topic.cluster_id != self.cluster_id:
            return OTHER_CLUSTER
        now = self.topic_ids.get(topic.topic)
        if topic.topic_id is not None and now is not None and topic.topic_id != now:
            return RECREATED
        end = self.ends.get(TopicPartition(topic.topic, part.partition), ABSENT)
        return end if isinstance(end, Unknown) else max(0, end - (part.next_offset or 0))

    def total_lag(self, topic: TopicStatus) -> int | Unknown:
        """Offsets of all partitions of *topic* that are not in its backup yet.

        Unknown if the lag of any partition is unknown.
        """
        if topic.commit is None:
            return NO_MANIFEST
        lags = [self.lag(topic, partition) for partition in topic.partitions]
        unknown = next((lag for lag in lags if isinstance(lag, Unknown)), None)
        return unknown or sum(lag for lag in lags if isinstance(lag, int))


def read_ends(client: ReadClient, topics: Collection[str], deadline: Deadline) -> LiveEnds:
    """Ask all leaders at once for the last stable offsets of *topics*.

    Raises:
        Unreachable, NotAuthorized: no broker returns the metadata, or an ACL is missing.
    """
    cluster_id = client.describe(deadline).cluster_id
    wanted = set(topics)
    # Metadata for a topic that does not exist is an error, so one request asks for all topics.
    states = [
        partition
        for partition in client.partitions((), deadline)
        if partition.partition.topic in wanted
    ]
    return LiveEnds(
        cluster_id,
        read_leader_ends(client.sender, states, deadline, isolation_level=READ_COMMITTED),
        {state.partition.topic: state.topic_id for state in states},
    )


@dataclass(frozen=True)
class TopicHeld:
    """One generation of a topic, with its totals."""

    topic: str
    generation: int
    newest: bool
    """Whether this is the topic's latest generation."""
    status: TopicStatus | None
    unread: str = ""
    """Why *status* is None."""

    @property
    def name(self) -> str:
        """The folder's name: ``orders``, ``orders~2``."""
        return self.status.name if self.status else folder_name(self.topic, self.generation)

    @property
    def partitions(self) -> tuple[PartitionStatus, ...]:
        return self.status.partitions if self.status else ()

    @cached_property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @cached_property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    @cached_property
    def segments(self) -> int:
        return sum(partition.segments for partition in self.partitions)

    @cached_property
    def lost(self) -> int:
        return sum(partition.lost for partition in self.partitions)


@dataclass(frozen=True)
class LocationHeld:
    """All topics in one location of backups."""

    topics: tuple[TopicHeld, ...]

    @cached_property
    def newest_ms(self) -> int | None:
        """The time of the latest commit; None if nothing was committed."""
        moments = (topic.status.committed_at_ms for topic in self.topics if topic.status)
        return max((moment for moment in moments if moment is not None), default=None)


def full_address(url: str) -> str:
    """*url* in the same spelling in every process, whatever its working directory.

    Raises:
        UsageError: *url* is not a valid address of backups.
    """
    from breakglass.services.topic_backup.store.store import open_store

    return open_store(url).where()


def read_location(url: str, key: Key | None = None) -> LocationHeld:
    """Read the status of every topic at *url*; with the *key*, of encrypted ones too.

    Raises:
        UsageError: the location does not exist or has no backup.
        StorageError: the location cannot be listed.
    """
    from breakglass.services.topic_backup.catalog import held_topics
    from breakglass.services.topic_backup.store.store import open_store

    held = held_topics(open_store(url, key))
    last = {topic.topic: topic.generation for topic in sorted(held)}
    return LocationHeld(
        tuple(_topic(topic, last[topic.topic] == topic.generation) for topic in held)
    )


def _topic(held: HeldTopic, newest: bool) -> TopicHeld:
    try:
        status = topic_status(held)
    except BreakglassError as error:
        return TopicHeld(held.topic, held.generation, newest, None, str(error))
    return TopicHeld(held.topic, held.generation, newest, status)


class BackupState(StrEnum):
    """The state of a topic's backup, most urgent first."""

    UNREADABLE = "unreadable"
    """Its manifest cannot be read."""
    DAMAGED = "damaged"
    """Files are missing or too short, or the last verification found damage or differences."""
    LOST = "lost"
    """Offsets are missing for a reason other than compaction or transactions."""
    RUNNING = "running"
    """A job is copying it."""
    BARE = "no manifest"
    """Kafka Backup made it: without a manifest, only its files can be checked."""
    UNVERIFIED = "unverified"
    """The last commit has not been verified."""
    VERIFIED = "verified"


def state_of(held: TopicHeld, running: Collection[str] = ()) -> BackupState:
    """The state of *held*; *running* are the topics that jobs are copying."""
    status = held.status
    if status is None:
        return BackupState.UNREADABLE
    if status.damaged:
        return BackupState.DAMAGED
    if held.lost:
        return BackupState.LOST
    if held.newest and held.topic in running:
        return BackupState.RUNNING
    if status.commit is None:
        return BackupState.BARE
    return BackupState.VERIFIED if status.verified_now else BackupState.UNVERIFIED


def running_topics(jobs: Collection[SeenJob], url: str) -> frozenset[str]:
    """The topics that jobs on the backups at *url* are copying."""
    return frozenset(
        job.job.topic for job in jobs if job.life is Life.RUNNING and job.job.url == url
    )
