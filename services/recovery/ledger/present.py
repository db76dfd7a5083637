"""Reads the logs of the present leaders of an incident's partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import ask_brokers, by_leader
from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    EpochHistory,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    Unknown,
)

DEPTH = 64
"""Leader epochs that are asked for, from the newest back."""
DELETED = Unknown("the topic was deleted since, or created again")
OFFLINE = Unknown("it has no leader now")


@dataclass(frozen=True, slots=True)
class LeaderNow:
    """The present leader of a partition, and that leader's log."""

    leader: int | None
    log: ReplicaLog | Unknown


def leaders_now(
    client: ReadClient,
    cluster_id: str,
    topic_ids: Mapping[TopicPartition, UUID | None],
    deadline: Deadline,
) -> dict[TopicPartition, LeaderNow]:
    """The leaders of these partitions and their logs; a leader that does not answer is Unknown.

    Raises:
        WrongCluster: the addresses lead to another cluster.
        Unreachable: no broker serves the cluster's metadata.
    """
    require_same_cluster(cluster_id, client.describe(deadline).cluster_id)
    topics = sorted({partition.topic for partition in topic_ids})
    there = {
        partition.partition: partition
        for partition in client.partitions(topics, deadline, set(topic_ids))
    }
    states = {
        partition: there[partition]
        for partition, topic_id in topic_ids.items()
        if partition in there and topic_id in (None, there[partition].topic_id)
    }

    def ask(
        broker: int, asked: Collection[TopicPartition]
    ) -> dict[TopicPartition, ReplicaLog | Unknown]:
        reader = client.replicas_on(broker)
        found = reader.read(
            {partition: states[partition].topic_id for partition in asked}, deadline
        )
        reader.deepen(asked, DEPTH, deadline)
        return {
            partition: _log(broker, found[partition], reader.history(partition))
            for partition in asked
        }

    logs = ask_brokers(by_leader(states.values()), ask)
    return {id_: _now(states.get(id_), logs.get(id_, OFFLINE)) for id_ in topic_ids}


def _now(state: PartitionState | None, log: ReplicaLog | Unknown) -> LeaderNow:
    return LeaderNow(None, DELETED) if state is None else LeaderNow(state.leader, log)


def _log(
    broker: int, reading: ReplicaReading, epochs: EpochHistory | Unknown
) -> ReplicaLog | Unknown:
    """The log, if enough of it is known to compare it."""
    for needed in (reading.log_end, reading.log_start, epochs):
        if isinstance(needed, Unknown):
            return needed
    return ReplicaLog(
        broker=broker,
        role=Role.ISR,
        fenced=False,
        reachable=True,
        log_start=reading.log_start,
        high_watermark=reading.high_watermark,
        log_end=reading.log_end,
        leader_epoch=reading.leader_epoch,
        epochs=epochs,
        newest_ms=reading.newest_ms,
        source=reading.source,
        observed_at_ms=reading.observed_at_ms,
    )
