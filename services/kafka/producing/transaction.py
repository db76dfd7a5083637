"""A transactional producer as its coordinator knows it: who it is, what it writes to, how it ends.

A request that was not answered is sent again: the coordinator answers it as it did the first.
Requests have the versions of before KIP-890's second part, in which a partition belongs to a
transaction because it is written to: brokers serve both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from breakglass.services.errors import NotAuthorized, Unreachable
from breakglass.services.kafka.cluster.coordinators import GROUP, TRANSACTION, find_coordinator
from breakglass.services.kafka.producing.refusals import CONCURRENT_TRANSACTIONS, refusal
from breakglass.services.kafka.wire.broker_errors import (
    GROUP_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicPartition

ASK_SECONDS = 30.0
NOBODY = -1
NEEDED = {
    TRANSACTION: TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    GROUP: GROUP_AUTHORIZATION_FAILED,
}
MARKERS_SECONDS = 0.01
"""After so long it is asked again whether the markers of the last transaction are written."""
INIT_VERSION, ADD_VERSION, OFFSETS_VERSION, COMMIT_VERSION, END_VERSION = 4, 3, 3, 3, 3


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What brokers know a producer by."""

    id: int
    epoch: int


class TransactionClient:
    """The transactions of one transactional id; constructed only in armed sessions.

    Raises, each method:
        Unreachable: no coordinator before the deadline.
        NotAuthorized, CannotProduce: it refuses; somebody else has the id by now.
    """

    def __init__(self, sender: Sender, transactional_id: str, where: str, timeout_ms: int) -> None:
        self._sender = sender
        self._id = transactional_id
        self._where = where
        """How messages name what is written to."""
        self._timeout_ms = timeout_ms
        self._coordinators: dict[tuple[int, str], int] = {}
        self._producer = ProducerIdentity(NOBODY, NOBODY)

    def fence(self, deadline: Deadline) -> ProducerIdentity:
        """Keep out whoever had the id, and decide their transaction; who the producer is now."""
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
            (told,) = answer.results_by_topic_v3_and_below
            return int(told.results_by_partition[0].partition_error_code)

        self._ask(
            TRANSACTION, self._id, request, AddPartitionsToTxnResponse, ADD_VERSION, deadline, code
        )

    def commit_offset(
        self, group: str, partition: TopicPartition, offset: int, deadline: Deadline
    ) -> None:
        """Let *offset* be committed for *group* with the transaction."""
        from kafka.protocol.producer import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

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
        self._tell_group(group, partition, offset, deadline)

    def _tell_group(
        self, group: str, partition: TopicPartition, offset: int, deadline: Deadline
    ) -> None:
        from kafka.protocol.producer import TxnOffsetCommitRequest, TxnOffsetCommitResponse

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
            return int(answer.topics[0].partitions[0].error_code)

        self._ask(GROUP, group, request, TxnOffsetCommitResponse, COMMIT_VERSION, deadline, code)

    def end(self, deadline: Deadline, *, commit: bool) -> None:
        """Commit the transaction, or abort it."""
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
        """The answer of the coordinator of *key*, which is sought again after a failure."""

        def once() -> Any:
            coordinator = self._coordinator(kind, key, deadline)
            limit = deadline.sooner(ASK_SECONDS)
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

    def _coordinator(self, kind: int, key: str, deadline: Deadline) -> int:
        if (kind, key) not in self._coordinators:
            try:
                found = find_coordinator(self._sender, key, deadline, kind)
            except NotAuthorized:
                # What a producer needs lets it find its coordinator, too.
                raise refusal(NEEDED[kind], self._where) from None
            self._coordinators[kind, key] = found
        return self._coordinators[kind, key]


def idempotent_producer(sender: Sender, where: str, deadline: Deadline) -> ProducerIdentity:
    """A producer without transactions, whose batches are written once. Raises as above."""
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
