"""Sends ListOffsets: to leaders in parallel, or as a debugging client, which reads any replica.

Replica id -2 lets a broker answer for its own replica of a leaderless partition
(ReplicaManager.fetchOffset, Request.DebuggingConsumerId); -1 and -3 get error 6. Each leader has a
thread of its own, so that a hung leader delays no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    KAFKA_STORAGE_ERROR,
    NO_OFFSET,
    OFFSET_NOT_AVAILABLE,
    by_partition,
    by_topic,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionState, TopicPartition, Unknown

DEBUGGING_REPLICA = -2
LEADER_ONLY = -1

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

LATEST = -1
"""Log end offset under `DEBUGGING_REPLICA`, high watermark under `LEADER_ONLY`."""
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4


class ListedOffset(NamedTuple):
    """One partition's answer."""

    offset: int
    timestamp_ms: int
    """-1 unless a timestamp was searched for."""
    leader_epoch: int
    """For LATEST the current leader epoch; for MAX_TIMESTAMP the epoch of that batch; else -1."""


@dataclass(frozen=True, slots=True)
class OffsetError(Unknown):
    """An Unknown that keeps the broker's error code."""

    code: int = 0


def list_offsets(
    sender: Sender,
    broker: int,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    deadline: Deadline,
    *,
    replica_id: int = DEBUGGING_REPLICA,
    leader_epochs: dict[TopicPartition, int] | None = None,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, ListedOffset | OffsetError]:
    """Ask *broker* for the offset at *timestamp* of its replicas, all in one request.

    Partitions that the answer leaves out are asked for again; if still missing, an error.
    *leader_epochs* makes a leader-only question fail unless the broker leads in that epoch.
    Under `READ_COMMITTED` a leader's LATEST is the last stable offset.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
        MalformedMessage: it answered for another partition, or twice for one.
    """
    answers: dict[TopicPartition, ListedOffset | OffsetError] = {}
    missing = list(partitions)
    while missing:
        before = len(missing)
        request = _request(missing, timestamp, replica_id, leader_epochs or {}, isolation_level)
        answers.update(_ask(sender, broker, request, missing, timestamp, deadline))
        missing = [partition for partition in missing if partition not in answers]
        if len(missing) == before:
            absent = OffsetError(f"b{broker} leaves this partition out of its answers")
            answers.update(dict.fromkeys(missing, absent))
            break
    return answers


def _request(
    partitions: list[TopicPartition],
    timestamp: int,
    replica_id: int,
    leader_epochs: dict[TopicPartition, int],
    isolation_level: int,
) -> Any:
    from breakglass.services.kafka.wire.messages.reading import ListOffsetsRequest

    topic_class = ListOffsetsRequest.ListOffsetsTopic
    partition_class = topic_class.ListOffsetsPartition

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(
            name=name,
            partitions=[
                partition_class(
                    partition_index=partition.partition,
                    current_leader_epoch=leader_epochs.get(partition, -1),
                    timestamp=timestamp,
                )
                for partition in held
            ],
        )

    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=by_topic(partitions, topic),
        timeout_ms=0,
    )


def _ask(
    sender: Sender,
    broker: int,
    request: Any,
    asked: list[TopicPartition],
    timestamp: int,
    deadline: Deadline,
) -> dict[TopicPartition, ListedOffset | OffsetError]:
    from breakglass.services.kafka.wire.messages.reading import ListOffsetsResponse

    answer = sender.call(broker, request, ListOffsetsResponse, deadline, max_version=9)
    # Where nothing has the timestamp that is searched for, the answer is -1.
    least = 0 if timestamp in (LATEST, EARLIEST) else -1
    told = (
        (
            TopicPartition(topic.name, partition.partition_index),
            _offset(topic.name, broker, partition, least),
        )
        for topic in answer.topics
        for partition in topic.partitions
    )
    return by_partition(told, asked, broker)


def _offset(topic: str, broker: int, answer: Any, least: int) -> ListedOffset | OffsetError:
    if answer.error_code == 0:
        if not least <= answer.offset < NO_OFFSET or answer.leader_epoch < -1:
            return OffsetError(
                f"b{broker} claims offset {answer.offset} in leader epoch {answer.leader_epoch}, "
                "which cannot be"
            )
        return ListedOffset(answer.offset, answer.timestamp, answer.leader_epoch)
    return OffsetError(_reason(topic, broker, answer.error_code), answer.error_code)


def _reason(topic: str, broker: int, code: int) -> str:
    if code in AUTHORIZATION_CODES:
        return f"not allowed: needs DESCRIBE on topic {topic}"
    if code == KAFKA_STORAGE_ERROR:
        return f"log directory offline on b{broker}"
    if code == OFFSET_NOT_AVAILABLE:
        return (
            f"b{broker} does not know its high watermark: too few replicas are in sync, or have "
            "not asked it yet"
        )
    return f"b{broker} answers {describe_error(code)}"


T = TypeVar("T")

NO_LEADER = Unknown("it is offline: no leader serves it")


@dataclass(frozen=True, slots=True)
class Unanswered(Unknown):
    """A value of a broker that did not answer, with the error that says why."""

    error: BreakglassError


def by_leader(states: Iterable[PartitionState]) -> dict[int, list[TopicPartition]]:
    """The partitions of *states* by the broker that leads them; offline partitions are left out."""
    led: dict[int, list[TopicPartition]] = {}
    for state in states:
        if state.leader is not None:
            led.setdefault(state.leader, []).append(state.partition)
    return led


def ask_brokers(
    asked: Mapping[int, Collection[TopicPartition]],
    ask: Callable[[int, Collection[TopicPartition]], Mapping[TopicPartition, T]],
) -> dict[TopicPartition, T | Unanswered]:
    """Call *ask* for each broker and its partitions, in one thread for each broker.

    No broker waits for another one, so each may use all the time that the caller allows.
    An error of one broker becomes the value of that broker's partitions.
    """

    def answers(broker: int) -> Mapping[TopicPartition, T | Unanswered]:
        try:
            return ask(broker, asked[broker])
        except BreakglassError as error:
            return dict.fromkeys(asked[broker], Unanswered(str(error), error))

    if not asked:
        return {}
    with ThreadPoolExecutor(len(asked), "brokers") as threads:
        return {
            partition: answer
            for found in threads.map(answers, asked)
            for partition, answer in found.items()
        }


def read_leader_ends(
    sender: Sender,
    states: Iterable[PartitionState],
    deadline: Deadline,
    *,
    timestamp: int = LATEST,
    isolation_level: int = READ_UNCOMMITTED,
    replica_id: int = LEADER_ONLY,
) -> dict[TopicPartition, int | Unknown]:
    """The offset at *timestamp* of each partition, as its leader says; by default the log's end.

    The end is the high watermark, or the last stable offset under `READ_COMMITTED`; of a
    `DEBUGGING_REPLICA` it is the log end offset.
    A partition is Unknown if it is offline, if its leader refuses (`OffsetError`), or if its
    leader does not answer before *deadline* (`Unanswered`).
    """
    states = list(states)

    def ask(
        leader: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | Unknown]:
        answers = list_offsets(
            sender,
            leader,
            partitions,
            timestamp,
            deadline,
            replica_id=replica_id,
            isolation_level=isolation_level,
        )
        return {partition: offset_of(answer) for partition, answer in answers.items()}

    ends: dict[TopicPartition, int | Unknown] = {state.partition: NO_LEADER for state in states}
    ends.update(ask_brokers(by_leader(states), ask))
    return ends


def offset_of(answer: ListedOffset | Unknown) -> int | Unknown:
    """The offset of *answer*, or why it is not known."""
    return answer.offset if isinstance(answer, ListedOffset) else answer
