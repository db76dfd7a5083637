"""Scenarios of transactions whose markers are on the dead leader alone, beside the named one."""

from __future__ import annotations

from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, COURSE, LAST_LOST
from breakglass.services.lab.scenarios.hanging_transaction import (
    COORDINATOR,
    TRANSACTION_SECONDS,
    begun,
)
from breakglass.services.lab.scenarios.logs import wait_log_end
from breakglass.services.lab.scenarios.scenario import Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict
from breakglass.services.model import TopicPartition

CUT, ORPHAN, RENEWED = (TopicPartition(name, 0) for name in ("cut", "orphan", "renewed"))
SHARED, MORE = 7, 3
"""Records of one transaction: on both replicas, and on the last leader alone."""
TRANSACTION_BYTES = 4_096


def _cut(stage: Stage) -> Script:
    """b2 misses a part of a transaction, and its marker."""
    yield from _split(stage, CUT, more=MORE)
    return [_expected(CUT)]


def _orphan(stage: Stage) -> Script:
    yield from _split(stage, ORPHAN, more=0)
    return [_expected(ORPHAN)]


def _split(stage: Stage, partition: TopicPartition, *, more: int) -> Script:
    stage.create(partition.topic, [(3, 2)])
    producer = begun(stage.cluster, f"{partition.topic}-writer")
    _write(producer, partition, 0, SHARED)
    wait_log_end(stage.cluster, partition, SHARED, 2, 3)
    yield B2_LOST
    _write(producer, partition, SHARED, more)
    producer.commit_transaction(TRANSACTION_SECONDS)
    wait_log_end(stage.cluster, partition, SHARED + more + 1, 3)
    yield B1_LOST
    yield LAST_LOST
    return []


def _renewed(stage: Stage) -> Script:
    """A client of KIP-890's second part: its marker bears the next epoch of the producer."""
    stage.create(RENEWED.topic, [(3, 2)])
    topic_id = stage.cluster.partition(RENEWED.topic, 0).topic_id
    producer = _initialised(stage, "renewed-writer")
    _produce(stage, "renewed-writer", producer, topic_id)
    wait_log_end(stage.cluster, RENEWED, SHARED, 2, 3)
    yield B2_LOST
    _commit(stage, "renewed-writer", producer)
    wait_log_end(stage.cluster, RENEWED, SHARED + 1, 3)
    yield B1_LOST
    yield LAST_LOST
    return [_expected(RENEWED)]


def _expected(partition: TopicPartition) -> Expectation:
    return Expectation(
        partition,
        TrueVerdict.WAIT,
        broker=3,
        designee=2,
        why="b3 led last and alone has the marker",
        if_gone=TrueVerdict.SAFE if partition != CUT else TrueVerdict.LOSS,
    )


def _write(producer: Any, partition: TopicPartition, start: int, count: int) -> None:
    for number in range(start, start + count):
        producer.produce(partition.topic, partition=0, key=f"t-{number}".encode(), value=b"v")
    assert producer.flush(TRANSACTION_SECONDS) == 0


def _initialised(stage: Stage, transactional_id: str) -> tuple[int, int]:
    """A producer's id and epoch."""
    from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

    def ask() -> Any:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=600_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        return stage.cluster.read(
            lambda node: node.ask(request, InitProducerIdResponse), via=COORDINATOR, timeout=300.0
        )

    begun(stage.cluster, "loads-the-coordinator").abort_transaction(TRANSACTION_SECONDS)
    answer = ask()
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def _produce(stage: Stage, transactional_id: str, producer: tuple[int, int], topic_id: Any) -> None:
    from kafka.protocol.producer import ProduceRequest, ProduceResponse
    from kafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=True,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        batch_size=TRANSACTION_BYTES,
    )
    for number in range(SHARED):
        builder.append(number, now_ms(), f"t-{number}".encode(), b"v", [])
    topic = ProduceRequest.TopicProduceData
    data = topic.PartitionProduceData(index=0, records=bytes(builder.build()))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=20_000,
        topic_data=[topic(name=RENEWED.topic, topic_id=topic_id, partition_data=[data])],
    )
    stage.cluster.wait_until(
        lambda: _accepted(
            stage.cluster.read(
                lambda node: node.ask(request, ProduceResponse), via=3, timeout=300.0
            )
        ),
        "the records of the transaction to be taken",
    )


def _accepted(answer: Any) -> bool:
    """The first request asks the coordinator to take the partition in, which may be repeated."""
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def _commit(stage: Stage, transactional_id: str, producer: tuple[int, int]) -> None:
    from kafka.protocol.producer import EndTxnRequest, EndTxnResponse

    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=True,
    )
    answer = stage.cluster.read(
        lambda node: node.ask(request, EndTxnResponse), via=COORDINATOR, timeout=300.0
    )
    assert (answer.error_code, answer.producer_epoch) == (0, producer[1] + 1)


CUT_TRANSACTION = Scenario(
    "cut-transaction", "A part of a transaction is lost with its marker.", _cut, course=COURSE
)
ORPHANED = Scenario("orphaned", "The marker is looked for nowhere.", _orphan, course=COURSE)
RENEWED_EPOCH = Scenario("renewed-epoch", "The marker has the next epoch.", _renewed, course=COURSE)
