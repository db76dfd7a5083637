"""A producer of KIP-890's second part, by bare requests: each transaction has its own epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.behind import TRANSACTION_SECONDS, begun
from breakglass.services.model import TopicPartition
from tests.kit.waiting import DEADLINE_SECONDS

BATCH_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class RenewingProducer:
    """One transaction of it."""

    cluster: Cluster
    transactional_id: str
    coordinator: int
    producer_id: int
    epoch: int

    @classmethod
    def started(cls, cluster: Cluster, transactional_id: str, coordinator: int) -> RenewingProducer:
        """Fence those before it."""
        begun(cluster, "loads-the-coordinator").abort_transaction(TRANSACTION_SECONDS)
        answer = initialise(cluster, transactional_id, coordinator)
        assert answer.error_code == 0
        return cls(
            cluster, transactional_id, coordinator, answer.producer_id, answer.producer_epoch
        )

    def produce(
        self, partition: TopicPartition, topic_id: UUID, count: int, *, leader: int
    ) -> None:
        """Write *count* records, which takes the partition into the transaction."""
        from kafka.protocol.producer import ProduceRequest, ProduceResponse
        from kafka.record.default_records import DefaultRecordBatchBuilder

        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=True,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            batch_size=BATCH_BYTES,
        )
        for number in range(count):
            builder.append(number, now_ms(), f"t-{number}".encode(), b"v", [])
        topic = ProduceRequest.TopicProduceData
        data = topic.PartitionProduceData(index=partition.partition, records=bytes(builder.build()))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=20_000,
            topic_data=[topic(name=partition.topic, topic_id=topic_id, partition_data=[data])],
        )

        def accepted() -> bool:
            # The first request asks the coordinator to take the partition in, and is repeated.
            answer = self._ask(request, ProduceResponse, leader)
            return bool(answer.responses[0].partition_responses[0].error_code == 0)

        self.cluster.wait_until(accepted, "the records of the transaction to be taken")

    def commit(self) -> None:
        """Commit, which raises the epoch."""
        from kafka.protocol.producer import EndTxnRequest, EndTxnResponse

        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=True,
        )
        answer = self._ask(request, EndTxnResponse, self.coordinator)
        assert (answer.error_code, answer.producer_epoch) == (0, self.epoch + 1)

    def _ask(self, request: Any, response: Any, broker: int) -> Any:
        return self.cluster.read(
            lambda node: node.ask(request, response), via=broker, timeout=DEADLINE_SECONDS
        )


def initialise(cluster: Cluster, transactional_id: str, coordinator: int) -> Any:
    """The coordinator's answer to one InitProducerId."""
    from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=600_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    return cluster.read(
        lambda node: node.ask(request, InitProducerIdResponse),
        via=coordinator,
        timeout=DEADLINE_SECONDS,
    )
