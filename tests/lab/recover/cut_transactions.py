"""Scenarios of transactions whose markers are on the dead leader alone, beside the named one."""

from typing import Any

from breakglass.services.lab.scenarios.behind import COORDINATOR, TRANSACTION_SECONDS, begun
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, COURSE, LAST_LOST
from breakglass.services.lab.scenarios.scenario import Scenario, Script, Stage, wait_log_end
from breakglass.services.lab.truth import Expectation, TrueVerdict
from breakglass.services.model import TopicPartition
from tests.lab.recover.renewing_producer import RenewingProducer

CUT, ORPHAN, RENEWED = (TopicPartition(name, 0) for name in ("cut", "orphan", "renewed"))
SHARED, MORE = 7, 3
"""Records of one transaction: on both replicas, and on the last leader alone."""


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
    producer = RenewingProducer.started(stage.cluster, "renewed-writer", COORDINATOR)
    producer.produce(RENEWED, topic_id, SHARED, leader=3)
    wait_log_end(stage.cluster, RENEWED, SHARED, 2, 3)
    yield B2_LOST
    producer.commit()
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


CUT_TRANSACTION = Scenario(
    "cut-transaction", "A part of a transaction is lost with its marker.", _cut, course=COURSE
)
ORPHANED = Scenario("orphaned", "The marker is looked for nowhere.", _orphan, course=COURSE)
RENEWED_EPOCH = Scenario("renewed-epoch", "The marker has the next epoch.", _renewed, course=COURSE)
