"""Reads where logs end, from all leaders in parallel, so that a hung leader delays no other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_UNCOMMITTED,
    ListedOffset,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionState, TopicPartition, Unknown

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
) -> dict[TopicPartition, int | Unknown]:
    """The offset at *timestamp* of each partition, as its leader says; by default the log's end.

    The end is the high watermark, or the last stable offset under `READ_COMMITTED`.
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
            replica_id=LEADER_ONLY,
            isolation_level=isolation_level,
        )
        return {partition: offset_of(answer) for partition, answer in answers.items()}

    ends: dict[TopicPartition, int | Unknown] = {state.partition: NO_LEADER for state in states}
    ends.update(ask_brokers(by_leader(states), ask))
    return ends


def offset_of(answer: ListedOffset | Unknown) -> int | Unknown:
    """The offset of *answer*, or why it is not known."""
    return answer.offset if isinstance(answer, ListedOffset) else answer
