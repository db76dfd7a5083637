"""The current last stable offsets of backed-up topics, from which a backup's lag is computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.leader_ends import read_leader_ends
from breakglass.services.kafka.replicas.list_offsets import READ_COMMITTED
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.topic_backup.status import PartitionStatus, TopicStatus

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
