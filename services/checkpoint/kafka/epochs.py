"""The leader epochs that wrote the logs of many partitions, as their leaders tell them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from breakglass.services.checkpoint.kafka.log_ends import Logs
from breakglass.services.checkpoint.protocol.epochs import diverged
from breakglass.services.errors import ClusterError, TimedOut
from breakglass.services.kafka.replicas.replica_reader import ReplicaReader
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import EpochHistory, TopicPartition, Unknown
from breakglass.services.topic_backup.summary import EpochStart

Histories = Mapping[TopicPartition, EpochHistory | Unknown]
NO_LEADER = Unknown("it has no leader")
"""In place of the history of a partition that nobody leads."""
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


def require_same_log(
    partition: TopicPartition, wanted: Iterable[EpochStart], history: EpochHistory | Unknown
) -> None:
    """Return if the log is still the one that records of *wanted* were read from (H10).

    Raises:
        ClusterError: it was cut and written anew.
        TimedOut: its leader did not tell its *history*.
    """
    if isinstance(history, Unknown):
        raise TimedOut(
            f"the leader epochs of {partition} cannot be read ({history.reason}): try again",
            history.reason,
        )
    reason = diverged(partition, wanted, history)
    if reason:
        raise ClusterError(reason)


def epochs_before(
    numbered: Mapping[TopicPartition, int], ends: Mapping[int, int], histories: Histories
) -> dict[int, int]:
    """The leader epochs that wrote the offsets before *ends*, by number, where known."""
    found = {
        number: history.epoch_at(ends[number] - 1)
        for one, number in numbered.items()
        if number in ends and isinstance(history := histories.get(one), EpochHistory)
    }
    return {number: epoch for number, epoch in found.items() if epoch is not None}
