"""Produces record batches, within the transactions of one transactional id or without.

An unanswered request is sent again: a coordinator answers a repeated request like the first, and by
the producer's sequence number a leader recognizes a duplicate batch, and answers with its offset.
Requests use the versions before KIP-890's second part, in which writing to a partition adds it to
the transaction; brokers serve both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    CannotProduce,
    ClusterError,
    NotAuthorized,
    TimedOut,
    TopicRecreated,
    Unreachable,
)
from breakglass.services.kafka.cluster.group_offsets import GROUP, TRANSACTION, find_coordinator
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    GROUP_AUTHORIZATION_FAILED,
    NO_OFFSET,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    describe_error,
    only,
    unbelievable,
)
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import PartitionState, TopicPartition

COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
CONCURRENT_TRANSACTIONS = 51
TRANSIENT = frozenset({
    COORDINATOR_LOADING,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    CONCURRENT_TRANSACTIONS,
    3,   # UNKNOWN_TOPIC_OR_PARTITION: not known there yet
    5,   # LEADER_NOT_AVAILABLE
    6,   # NOT_LEADER_OR_FOLLOWER
    7,   # REQUEST_TIMED_OUT
    13,  # NETWORK_EXCEPTION
    19,  # NOT_ENOUGH_REPLICAS
    20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
    56,  # KAFKA_STORAGE_ERROR
    74,  # FENCED_LEADER_EPOCH
    75,  # UNKNOWN_LEADER_EPOCH
    100, # UNKNOWN_TOPIC_ID
})  # fmt: skip
"""Errors that pass: another broker, or the same broker a moment later, may succeed."""
STEPS: Mapping[int, str] = {
    10: "raise message.max.bytes of the brokers",
    29: "grant WRITE on it",
    30: "grant READ on groups that begin with breakglass-restore-",
    31: "grant IDEMPOTENT_WRITE on the cluster",
    44: "see the cluster's policy",
    53: "grant WRITE on transactional ids that begin with breakglass-restore-",
    87: "see the broker's log",
}
"""What the operator does about errors that a retry does not clear."""


FENCED = frozenset({
    47,  # INVALID_PRODUCER_EPOCH: also after the coordinator aborted at the transaction's timeout
    49,  # INVALID_PRODUCER_ID_MAPPING
    90,  # PRODUCER_FENCED
})  # fmt: skip
FAILED = frozenset({
    45,  # OUT_OF_ORDER_SEQUENCE_NUMBER
    48,  # INVALID_TXN_STATE
    59,  # UNKNOWN_PRODUCER_ID
    120, # TRANSACTION_ABORTABLE
})  # fmt: skip


class Fenced(ClusterError):
    """Another producer took the transactional id: uncommitted records are lost."""


class TransactionFailed(ClusterError):
    """The transaction can only be aborted; none of its records become visible."""


def refusal(code: int, where: str, message: str | None = None) -> BreakglassError:
    """The exception for the error *code* of producing to *where*."""
    told = describe_error(code, message)
    if code in TRANSIENT:
        return TimedOut(f"{where} does not take records now ({told}): try again.", told)
    step = STEPS.get(code)
    if step is None:
        kinds = {**dict.fromkeys(FENCED, Fenced), **dict.fromkeys(FAILED, TransactionFailed)}
        return kinds.get(code, ClusterError)(f"{where} does not take records ({told}): try again.")
    kind = NotAuthorized if code in AUTHORIZATION_CODES else CannotProduce
    return kind(f"{where} does not take records ({told}): {step}.")


NOBODY = -1
NEEDED = {TRANSACTION: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP: GROUP_AUTHORIZATION_FAILED}
MARKERS_SECONDS = 0.01
"""Pause before asking again whether the last transaction's markers are written."""
INIT_VERSION, ADD_VERSION, OFFSETS_VERSION, COMMIT_VERSION, END_VERSION = 4, 3, 3, 3, 3


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The producer id and epoch that identify a producer to brokers."""

    id: int
    epoch: int


class TransactionClient:
    """The transactions of one transactional id; constructed only in armed sessions.

    Raises, each method:
        Unreachable: no coordinator answers before the deadline.
        NotAuthorized, CannotProduce: the coordinator refuses, or another producer took over the id.
    """

    def __init__(self, sender: Sender, transactional_id: str, where: str, timeout_ms: int) -> None:
        self._sender = sender
        self._id = transactional_id
        self._where = where
        """The name of the target in messages."""
        self._timeout_ms = timeout_ms
        self._coordinators: dict[tuple[int, str], int] = {}
        self._producer = ProducerIdentity(NOBODY, NOBODY)

    def fence(self, deadline: Deadline) -> ProducerIdentity:
        """Fence the id's previous producer and end its transaction; returns the new identity."""
        from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=NOBODY,
            producer_epoch=NOBODY,
        )
        answer = self._ask(
            TRANSACTION, self._id, request, InitProducerIdResponse, INIT_VERSION, deadline, _code
        )
        if answer.producer_id < 0 or answer.producer_epoch < 0:
            raise unbelievable(f"the coordinator of {self._where}", "gives no producer id")
        self._producer = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        return self._producer

    def add(self, partition: TopicPartition, deadline: Deadline) -> None:
        """Begin a transaction that writes to *partition*."""
        from kafka.protocol.producer import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer.id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=[topic(name=partition.topic, partitions=[partition.partition])],
        )

        def code(answer: Any) -> int:
            told = only(answer.results_by_topic_v3_and_below, self._where)
            return int(only(told.results_by_partition, self._where).partition_error_code)

        self._ask(
            TRANSACTION, self._id, request, AddPartitionsToTxnResponse, ADD_VERSION, deadline, code
        )

    def commit_offset(
        self, group: str, partition: TopicPartition, offset: int, deadline: Deadline
    ) -> None:
        from kafka.protocol.producer import (
            AddOffsetsToTxnRequest,
            AddOffsetsToTxnResponse,
            TxnOffsetCommitRequest,
            TxnOffsetCommitResponse,
        )

        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            group_id=group,
        )
        self._ask(
            TRANSACTION,
            self._id,
            request,
            AddOffsetsToTxnResponse,
            OFFSETS_VERSION,
            deadline,
            _code,
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        place = topic.TxnOffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic(name=partition.topic, partitions=[place])],
        )

        def code(answer: Any) -> int:
            return int(only(only(answer.topics, group).partitions, group).error_code)

        self._ask(GROUP, group, request, TxnOffsetCommitResponse, COMMIT_VERSION, deadline, code)

    def end(self, deadline: Deadline, *, commit: bool) -> None:
        from kafka.protocol.producer import EndTxnRequest, EndTxnResponse

        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            committed=commit,
        )
        self._ask(TRANSACTION, self._id, request, EndTxnResponse, END_VERSION, deadline, _code)

    def _ask(
        self,
        kind: int,
        key: str,
        request: Any,
        response: Any,
        version: int,
        deadline: Deadline,
        code: Callable[[Any], int],
    ) -> Any:
        """The answer of the coordinator of *key*, which is looked up again after a failure."""

        def once() -> Any:
            if (kind, key) not in self._coordinators:
                try:
                    found = find_coordinator(self._sender, key, deadline, kind)
                except NotAuthorized:
                    # The ACL that a producer needs also allows it to find its coordinator.
                    raise refusal(NEEDED[kind], self._where) from None
                self._coordinators[kind, key] = found
            coordinator = self._coordinators[kind, key]
            limit = deadline.sooner(patience.COMMAND)
            try:
                answer = call(coordinator, limit)
                while code(answer) == CONCURRENT_TRANSACTIONS and limit.remaining() > 0:
                    time.sleep(MARKERS_SECONDS)
                    answer = call(coordinator, limit)
                if code(answer):
                    raise refusal(code(answer), self._where)
            except Unreachable:
                self._coordinators.pop((kind, key), None)
                raise
            return answer

        def call(coordinator: int, limit: Deadline) -> Any:
            return self._sender.call(coordinator, request, response, limit, max_version=version)

        return until(deadline, once)


def idempotent_producer(sender: Sender, where: str, deadline: Deadline) -> ProducerIdentity:
    """An idempotent producer without transactions. Raises as `TransactionClient`."""
    from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

    def once() -> Any:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=0, producer_id=NOBODY,
            producer_epoch=NOBODY,
        )  # fmt: skip
        answer = sender.call(
            ANY_BROKER, request, InitProducerIdResponse, deadline, max_version=INIT_VERSION
        )
        if answer.error_code:
            raise refusal(answer.error_code, where)
        return answer

    answer = until(deadline, once)
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def _code(answer: Any) -> int:
    return int(answer.error_code)


ALL_IN_SYNC = -1
TIMEOUT_MS = 30_000
"""How long a leader waits for the other replicas."""
VERSION = 11
"""The last version before KIP-890's second part; it names topics."""


class PartitionProducer:
    """Writes to one partition, one batch at a time; constructed only in armed sessions."""

    def __init__(
        self, client: ReadClient, partition: TopicPartition, transactional_id: str | None
    ) -> None:
        self._client = client
        self._partition = partition
        self._transactional_id = transactional_id
        self._leader: int | None = None

    def write(self, batch: bytes, deadline: Deadline) -> int:
        """Send *batch*; the offset of its first record.

        Raises:
            Unreachable: no leader accepted the batch before *deadline*.
            TopicRecreated: the topic is gone.
            NotAuthorized, CannotProduce: the leader refused the batch.
        """
        return until(deadline, lambda: self._once(batch, deadline))

    def find_leader(self, deadline: Deadline) -> int:
        """Ask the cluster for the partition's current leader.

        Raises:
            Unreachable: the partition has no leader, or no broker answers.
            TopicRecreated: the topic is gone.
        """
        self._client.describe(deadline)
        self._leader = self._state(deadline).leader
        if self._leader is None:
            raise TimedOut(f"{self._partition} has no leader: try again.", "no leader")
        return self._leader

    def _once(self, batch: bytes, deadline: Deadline) -> int:
        leader = self.find_leader(deadline) if self._leader is None else self._leader
        try:
            return self._send(leader, batch, deadline.sooner(patience.WRITE))
        except Unreachable:
            self._leader = None
            raise

    def _send(self, leader: int, batch: bytes, deadline: Deadline) -> int:
        from kafka.protocol.producer import ProduceRequest, ProduceResponse

        topic = ProduceRequest.TopicProduceData
        data = topic.PartitionProduceData(index=self._partition.partition, records=batch)
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ALL_IN_SYNC,
            timeout_ms=TIMEOUT_MS,
            topic_data=[topic(name=self._partition.topic, partition_data=[data])],
        )
        answer = self._client.sender.call(
            leader, request, ProduceResponse, deadline, max_version=VERSION
        )
        told = only(only(answer.responses, f"b{leader}").partition_responses, f"b{leader}")
        if told.error_code:
            raise refusal(told.error_code, str(self._partition), told.error_message)
        if not 0 <= told.base_offset < NO_OFFSET:
            raise unbelievable(f"b{leader}", f"answers with offset {told.base_offset}")
        return int(told.base_offset)

    def _state(self, deadline: Deadline) -> PartitionState:
        for state in self._client.partitions([self._partition.topic], deadline):
            if state.partition == self._partition:
                return state
        raise TopicRecreated(
            f"{self._partition} does not take records: it was deleted: restore it again"
        )
