"""Asks every broker for partitions that have no leader, as one broker knows it.

A broker that is cut off from its controllers still answers, with the metadata that it had. The
leader epoch rises with each change of the leader, so the highest one is of the newest metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionState, TopicPartition


def read_newest_partitions(
    sender: Sender,
    states: Sequence[PartitionState],
    brokers: Collection[int],
    deadline: Deadline,
) -> tuple[PartitionState, ...]:
    """The partitions of *states*; those without leader as the *brokers* with the newest know them.

    Brokers that refuse, or do not answer within `patience.LOOK` and a tenth of the time that is
    left, change nothing.
    """
    offline = [state.partition for state in states if state.offline]
    topics = sorted({partition.topic for partition in offline})
    limit = deadline.sooner(min(patience.LOOK, deadline.remaining() / 10))

    def known_to(broker: int) -> tuple[PartitionState, ...]:
        try:
            return read_partitions(sender, limit, topics, offline, broker=broker)
        except BreakglassError:
            return ()

    if not offline or not brokers:
        return tuple(states)
    with ThreadPoolExecutor(len(brokers), "newest") as threads:
        answers = [state for answer in threads.map(known_to, brokers) for state in answer]
    others: dict[TopicPartition, list[PartitionState]] = {}
    for answer in answers:
        others.setdefault(answer.partition, []).append(answer)
    return tuple(newest(state, others.get(state.partition, ())) for state in states)


def newest(state: PartitionState, others: Collection[PartitionState]) -> PartitionState:
    """*state*, or one of *others* of the same topic with a higher leader epoch."""
    same = [other for other in others if other.topic_id == state.topic_id]
    return max((state, *same), key=lambda known: known.leader_epoch)
