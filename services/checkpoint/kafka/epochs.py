"""The leader epochs that wrote the logs of many partitions, as their leaders tell them."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from services.checkpoint.kafka.log_ends import Logs
from services.errors import TimedOut
from services.kafka.replicas.replica_reader import ReplicaReader
from services.kafka.wire.deadline import Deadline
from services.model import EpochHistory, TopicPartition, Unknown

Histories = Mapping[TopicPartition, EpochHistory | Unknown]
DEPTHS = (64, 1024)
"""How many epochs are read back, one step after the other, until an offset's is among them."""


def read_histories(
    logs: Logs, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> Histories:
    """The written epochs of the partitions of *offsets*, back to the offset given with each.

    Raises:
        Unreachable: a leader does not answer.
    """
    led: dict[int, dict[TopicPartition, UUID]] = {}
    for one in logs.states:
        if offsets.get(one.partition, -1) >= 0 and one.leader is not None:
            led.setdefault(one.leader, {})[one.partition] = one.topic_id
    found: dict[TopicPartition, EpochHistory | Unknown] = {}
    for leader, partitions in led.items():
        replicas = logs.client.replicas_on(leader)
        replicas.read(partitions, deadline)
        for depth in DEPTHS:
            replicas.deepen(_short(replicas, partitions, offsets), depth, deadline)
        found.update({one: replicas.history(one) for one in partitions})
    return found


def _short(
    replicas: ReplicaReader,
    partitions: Mapping[TopicPartition, UUID],
    offsets: Mapping[TopicPartition, int],
) -> list[TopicPartition]:
    """Those whose history does not go back far enough yet."""
    histories = {one: replicas.history(one) for one in partitions}
    return [
        one
        for one, history in histories.items()
        if isinstance(history, EpochHistory) and history.complete_from > offsets[one]
    ]


def told(partition: TopicPartition, histories: Histories) -> EpochHistory:
    """The history of *partition*.

    Raises:
        TimedOut: its leader did not tell.
    """
    history = histories.get(partition, Unknown("it has no leader"))
    if isinstance(history, Unknown):
        raise TimedOut(
            f"the leader epochs of {partition} cannot be read ({history.reason}): try again",
            history.reason,
        )
    return history


def epoch_at(partition: TopicPartition, end: int, histories: Histories) -> int | None:
    """The leader epoch that wrote the offset before *end*; None where that is not known."""
    history = histories.get(partition)
    return history.epoch_at(end - 1) if isinstance(history, EpochHistory) else None
