"""Where backed-up topics end now, for committed readers: what a backup's lag is counted to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from services.errors import BreakglassError
from services.kafka.read_client import ReadClient
from services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    OffsetError,
    list_offsets,
)
from services.kafka.wire.deadline import Deadline
from services.model import PartitionState, TopicPartition, Unknown
from services.topic_backup.status import PartitionStatus, TopicStatus

NO_LEADER = Unknown("it is offline: no leader serves it")
ABSENT = Unknown("the cluster has no such partition")
RECREATED = Unknown("the topic was created again since: this is a backup of the one before")
OTHER_CLUSTER = Unknown("it is a backup of another cluster")
NOT_ASKED = Unknown("the cluster was not asked yet")
NO_MANIFEST = Unknown("without a manifest nothing says how far the backup goes")


@dataclass(frozen=True, slots=True)
class LiveEnds:
    """The last stable offset of each partition, or why it is not known."""

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
        """Offsets of all its partitions that are not in the backup; partitions without any count.

        Unknown where one partition's is.
        """
        if topic.commit is None:
            return NO_MANIFEST
        lags = [self.lag(topic, one) for one in topic.partitions]
        unknown = next((one for one in lags if isinstance(one, Unknown)), None)
        return unknown or sum(one for one in lags if isinstance(one, int))


def read_ends(client: ReadClient, topics: Collection[str], deadline: Deadline) -> LiveEnds:
    """Ask every leader where the partitions of *topics* end now.

    Raises:
        Unreachable, NotAuthorized: no broker serves the metadata, or an ACL is missing.
    """
    cluster_id = client.describe(deadline).cluster_id
    wanted = set(topics)
    # Asking for names that do not exist is an error; all names are one request.
    states = [one for one in client.partitions((), deadline) if one.partition.topic in wanted]
    return LiveEnds(
        cluster_id,
        dict(_ends(client, states, deadline)),
        {one.partition.topic: one.topic_id for one in states},
    )


def _ends(
    client: ReadClient, states: Iterable[PartitionState], deadline: Deadline
) -> Iterable[tuple[TopicPartition, int | Unknown]]:
    led: dict[int, list[TopicPartition]] = {}
    for one in states:
        if one.leader is None:
            yield one.partition, NO_LEADER
        else:
            led.setdefault(one.leader, []).append(one.partition)
    for leader, partitions in led.items():
        yield from _of_leader(client, leader, partitions, deadline)


def _of_leader(
    client: ReadClient, leader: int, partitions: list[TopicPartition], deadline: Deadline
) -> Iterable[tuple[TopicPartition, int | Unknown]]:
    """The ends that *leader* tells; a broker that does not answer hides no other's."""
    try:
        told = list_offsets(
            client.sender,
            leader,
            partitions,
            LATEST,
            deadline,
            replica_id=LEADER_ONLY,
            isolation_level=READ_COMMITTED,
        )
    except BreakglassError as error:
        yield from ((one, Unknown(str(error))) for one in partitions)
        return
    for one in partitions:
        answer = told[one]
        yield one, answer if isinstance(answer, OffsetError) else answer.offset
