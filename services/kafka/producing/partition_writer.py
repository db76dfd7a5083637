"""Writes record batches to the leader of one partition, each until all in-sync replicas have it.

An unanswered batch is sent again unchanged: by the producer's sequence number the leader recognizes
a duplicate, and answers with its offset.
"""

from __future__ import annotations

from breakglass.services import patience
from breakglass.services.errors import TimedOut, TopicRecreated, Unreachable
from breakglass.services.kafka.producing.transaction import refusal
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.grouping import NO_OFFSET, only, unbelievable
from breakglass.services.model import PartitionState, TopicPartition

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
