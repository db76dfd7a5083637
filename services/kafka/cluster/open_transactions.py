"""Reads open transactions on partitions, and finds the hanging ones, which nobody ends (R18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from breakglass.services.errors import BreakglassError, ClusterError, NotAuthorized
from breakglass.services.kafka.wire.answers import AUTHORIZATION_CODES, by_topic, describe_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.words.moments import time_text

ONGOING = "Ongoing"
UNDER_WAY = frozenset({ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States in which the producer or coordinator still ends a transaction (TransactionState.java)."""

UNLISTED = Unknown(
    "no coordinator lists it: it is forgotten, or this user needs DESCRIBE on its transactional id"
)
"""Brokers silently leave out transactions that a user may not describe (KafkaApis.scala)."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without its marker on one partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    """read_committed consumers read no record from this offset on."""
    last_timestamp_ms: int
    coordinator_state: str | Unknown
    """The coordinator's state: Ongoing, CompleteCommit, ...; "" when no coordinator lists it."""
    coordinator_epoch: int = -1
    """Coordinator epoch of the partition's last marker of this producer; -1: no marker."""
    includes: bool | Unknown = True
    """Whether the coordinator's current transaction includes this partition."""
    beside: tuple[TopicPartition, ...] = ()
    """The other partitions of the coordinator's current transaction."""
    began_ms: int | None = None
    """When the coordinator's current transaction began; None: it has none."""
    aborts_at_ms: int | None = None
    """When the coordinator aborts the transaction; None: it has decided how the transaction ends,
    or its state is not known."""
    ended_on: tuple[TopicPartition, ...] = ()
    """Of `beside`, those on which the producer's transaction has ended since it began."""
    transactional_id: str = ""
    """As the coordinator lists it; "" when no coordinator does."""
    last_sequence: int = -1
    """The producer's newest sequence number on the partition: another one, and it has written."""

    @property
    def hanging(self) -> bool | Unknown:
        """Whether the coordinator will never write the missing marker."""
        if isinstance(self.coordinator_state, Unknown):
            return self.coordinator_state
        if not self.coordinator_state:
            return UNLISTED
        if self.coordinator_state not in UNDER_WAY:
            return True
        if isinstance(self.includes, Unknown):
            return self.includes
        if self.includes and self.ended_on:
            return Unknown(
                f"it has ended on {self.ended_on[0]} and is {self.coordinator_state} at its "
                f"coordinator, which {self.left_to}; an election may have set the coordinator back"
            )
        return not self.includes

    @property
    def left_to(self) -> str:
        """What its coordinator does with it, if nobody else ends it."""
        if self.aborts_at_ms is None:
            return "will end it"
        return f"will ABORT it at {time_text(self.aborts_at_ms)} unless its producer ends it before"


class _Told(NamedTuple):
    """What a coordinator lists about a producer."""

    state: str
    transactional_id: str
    broker: int


class _Listed(NamedTuple):
    """The producers that all coordinators list."""

    producers: dict[int, _Told]
    unread: Unknown | None
    """Why a coordinator's list is missing: it may have a producer that no other list has."""


def read_open_transactions(
    sender: Sender,
    leaders: Mapping[TopicPartition, int],
    coordinators: Iterable[int],
    deadline: Deadline,
) -> tuple[OpenTransaction, ...] | Unknown:
    """Open transactions on the partitions of *leaders* (their leading brokers), in order.

    *coordinators* are the brokers asked for the state of each transaction: all live brokers, since
    any may be the coordinator. Unknown with the reason when a leader does not answer.
    """
    held: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        held.setdefault(leader, []).append(partition)
    found: list[OpenTransaction] = []
    try:
        for leader, partitions in sorted(held.items()):
            unasked = Unknown("its coordinator was not asked")
            found += [
                OpenTransaction(
                    partition,
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.current_txn_start_offset,
                    producer.last_timestamp,
                    unasked,
                    producer.coordinator_epoch,
                    last_sequence=producer.last_sequence,
                )
                for partition, producer in _producers_on(sender, leader, partitions, deadline)
                if producer.current_txn_start_offset >= 0
            ]
    except BreakglassError as error:
        return Unknown(str(error))
    producers = {transaction.producer_id for transaction in found}
    listed: dict[int, _Told] = {}
    unread: Unknown | None = None
    for broker in coordinators if producers else ():
        answer = _list_on(sender, broker, producers, deadline)
        if isinstance(answer, Unknown):
            # An error of one coordinator does not stop the others.
            unread = unread or answer
        else:
            listed.update(answer)
    told = _Listed(listed, unread)
    return tuple(
        _coordinated(sender, transaction, told, deadline)
        for transaction in sorted(found, key=lambda one: (one.partition, one.start_offset))
    )


def _coordinated(
    sender: Sender, one: OpenTransaction, told: _Listed, deadline: Deadline
) -> OpenTransaction:
    from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse

    listed = told.producers.get(one.producer_id)
    if listed is None:
        return replace(one, coordinator_state=told.unread or "")
    one = replace(one, coordinator_state=listed.state, transactional_id=listed.transactional_id)
    if listed.state not in UNDER_WAY:
        return one
    # The transaction *one* with what its coordinator describes of it (KIP-664).
    request = DescribeTransactionsRequest(transactional_ids=[listed.transactional_id])
    try:
        answer = sender.call(listed.broker, request, DescribeTransactionsResponse, deadline)
    except BreakglassError as error:
        why = f"b{listed.broker} does not describe its transaction: {error}"
        return replace(one, includes=Unknown(why))
    for state in answer.transaction_states:
        if state.error_code:
            why = f"b{listed.broker} answers {describe_error(state.error_code)}"
            return replace(one, includes=Unknown(why))
        partitions = {
            TopicPartition(topic.topic, number)
            for topic in state.topics
            for number in topic.partitions
        }
        began = state.transaction_start_time_ms
        return replace(
            one,
            includes=one.partition in partitions,
            beside=tuple(sorted(partitions - {one.partition})),
            began_ms=began if began >= 0 else None,
            aborts_at_ms=began + state.transaction_timeout_ms
            if began >= 0 and listed.state == ONGOING
            else None,
        )
    why = f"b{listed.broker} leaves its transaction out of the answer"
    return replace(one, includes=Unknown(why))


def ended_beside(
    sender: Sender,
    found: Iterable[OpenTransaction],
    leaders: Mapping[TopicPartition, int],
    deadline: Deadline,
) -> dict[int, tuple[TopicPartition, ...]]:
    """By producer id, partitions on which the transaction that is Ongoing has ended already.

    Its coordinator decides before it writes a marker: where one is written, an Ongoing coordinator
    has been set back. Only partitions of *leaders* are looked at; a leader that does not answer is
    passed over.
    """
    began = {
        (partition, one.producer_id): one.began_ms
        for one in found
        if one.coordinator_state == ONGOING and one.began_ms is not None
        for partition in one.beside
    }
    asked: dict[int, set[TopicPartition]] = {}
    for partition, _ in began:
        if partition in leaders:
            asked.setdefault(leaders[partition], set()).add(partition)
    ended: dict[int, tuple[TopicPartition, ...]] = {}
    for leader, partitions in sorted(asked.items()):
        try:
            producers = _producers_on(sender, leader, sorted(partitions), deadline)
        except BreakglassError:
            continue
        for partition, producer in producers:
            since = began.get((partition, producer.producer_id))
            closed = producer.current_txn_start_offset < 0
            if since is not None and closed and producer.last_timestamp >= since:
                known = ended.get(producer.producer_id, ())
                ended[producer.producer_id] = (*known, partition)
    return ended


def _producers_on(
    sender: Sender, leader: int, partitions: list[TopicPartition], deadline: Deadline
) -> list[tuple[TopicPartition, Any]]:
    """What *leader* knows of each producer on *partitions*.

    Raises BreakglassError: the leader does not answer, or answers for a partition with an error.
    """
    from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

    topic_class = DescribeProducersRequest.TopicRequest

    def topic(name: str, asked: list[TopicPartition]) -> Any:
        return topic_class(
            name=name, partition_indexes=[partition.partition for partition in asked]
        )

    request = DescribeProducersRequest(topics=by_topic(partitions, topic))
    answer = sender.call(leader, request, DescribeProducersResponse, deadline)
    return [
        (name, producer)
        for topic_answer in answer.topics
        for told in topic_answer.partitions
        for name in (TopicPartition(topic_answer.name, told.partition_index),)
        for producer in _active(name, told)
    ]


def _active(partition: TopicPartition, answer: Any) -> Any:
    """The producers of one partition's answer. Raises as `_producers_on`."""
    if answer.error_code in AUTHORIZATION_CODES:
        needs = f"READ on topic {partition.topic}"
        raise NotAuthorized(f"grant {needs} to read its transactions", needs)
    if answer.error_code:
        told = describe_error(answer.error_code, answer.error_message)
        raise ClusterError(f"transactions of {partition} could not be read ({told}): ask again")
    return answer.active_producers


def _list_on(
    sender: Sender, broker: int, producers: set[int], deadline: Deadline
) -> dict[int, _Told] | Unknown:
    from kafka.protocol.admin import ListTransactionsRequest, ListTransactionsResponse

    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producers))
    try:
        answer = sender.call(broker, request, ListTransactionsResponse, deadline, max_version=0)
    except BreakglassError as error:
        return Unknown(f"b{broker} does not tell its transactions: {error}")
    if answer.error_code:
        return Unknown(f"b{broker} answers {describe_error(answer.error_code)}")
    return {
        state.producer_id: _Told(state.transaction_state, state.transactional_id, broker)
        for state in answer.transaction_states
    }
