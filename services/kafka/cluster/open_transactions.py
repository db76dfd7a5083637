"""Open transactions on partitions, and which of them nobody will ever end (R18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from breakglass.services.errors import BreakglassError, ClusterError, NotAuthorized
from breakglass.services.kafka.wire.broker_errors import AUTHORIZATION_CODES, describe_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.grouping import by_topic
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition, Unknown

ONGOING = "Ongoing"
"""The coordinator's state of a transaction that its producer may still end."""

UNLISTED = Unknown(
    "no coordinator lists it: it is forgotten, or this user needs DESCRIBE on its transactional id"
)
"""Brokers leave out what a user may not describe, without a word (KafkaApis.scala)."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without its marker on one partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    """read_committed consumers read nothing from here on."""
    last_timestamp_ms: int
    coordinator_state: str | Unknown
    """What its coordinator says: Ongoing, CompleteCommit, ...; "" when no coordinator lists it."""

    @property
    def hanging(self) -> bool | Unknown:
        """Whether its coordinator will never write the missing marker."""
        if isinstance(self.coordinator_state, Unknown):
            return self.coordinator_state
        if not self.coordinator_state:
            return UNLISTED
        return self.coordinator_state != ONGOING


def read_open_transactions(
    sender: Sender,
    leaders: Mapping[TopicPartition, int],
    coordinators: Iterable[int],
    deadline: Deadline,
) -> tuple[OpenTransaction, ...] | Unknown:
    """Open transactions on the partitions of *leaders* (their leading brokers), in order.

    *coordinators* are the brokers asked for the state of each; Unknown with the reason when
    a leader does not tell.
    """
    held: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        held.setdefault(leader, []).append(partition)
    found: list[OpenTransaction] = []
    try:
        for leader, partitions in sorted(held.items()):
            found += _on_leader(sender, leader, partitions, deadline)
    except BreakglassError as error:
        return Unknown(str(error))
    states = _coordinator_states(sender, {one.producer_id for one in found}, coordinators, deadline)
    return tuple(
        OpenTransaction(
            one.partition,
            one.producer_id,
            one.producer_epoch,
            one.start_offset,
            one.last_timestamp_ms,
            states if isinstance(states, Unknown) else states.get(one.producer_id, ""),
        )
        for one in sorted(found, key=lambda one: (one.partition, one.start_offset))
    )


def _on_leader(
    sender: Sender, leader: int, partitions: list[TopicPartition], deadline: Deadline
) -> list[OpenTransaction]:
    from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

    topic_class = DescribeProducersRequest.TopicRequest

    def topic(name: str, asked: list[TopicPartition]) -> Any:
        return topic_class(name=name, partition_indexes=[one.partition for one in asked])

    request = DescribeProducersRequest(topics=by_topic(partitions, topic))
    answer = sender.call(leader, request, DescribeProducersResponse, deadline)
    return [
        transaction
        for topic_answer in answer.topics
        for one in topic_answer.partitions
        for transaction in _open(TopicPartition(topic_answer.name, one.partition_index), one)
    ]


def _open(partition: TopicPartition, answer: Any) -> Iterable[OpenTransaction]:
    if answer.error_code in AUTHORIZATION_CODES:
        needs = f"READ on topic {partition.topic}"
        raise NotAuthorized(f"grant {needs} to read its transactions", needs)
    if answer.error_code:
        told = describe_error(answer.error_code, answer.error_message)
        raise ClusterError(f"transactions of {partition} could not be read ({told}): ask again")
    unasked = Unknown("its coordinator was not asked")
    for one in answer.active_producers:
        if one.current_txn_start_offset >= 0:
            yield OpenTransaction(
                partition,
                one.producer_id,
                one.producer_epoch,
                one.current_txn_start_offset,
                one.last_timestamp,
                unasked,
            )


def _coordinator_states(
    sender: Sender, producers: set[int], coordinators: Iterable[int], deadline: Deadline
) -> dict[int, str] | Unknown:
    """The state of each of *producers* that some coordinator knows."""
    if not producers:
        return {}
    from kafka.protocol.admin import ListTransactionsRequest, ListTransactionsResponse

    states: dict[int, str] = {}
    for broker in coordinators:
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producers))
        try:
            answer = sender.call(broker, request, ListTransactionsResponse, deadline, max_version=0)
        except BreakglassError as error:
            return Unknown(f"b{broker} does not tell its transactions: {error}")
        if answer.error_code:
            return Unknown(f"b{broker} answers {describe_error(answer.error_code)}")
        states.update({one.producer_id: one.transaction_state for one in answer.transaction_states})
    return states
