"""A lab whose losing replicas hold what an election cuts off, and the truth about all of it.

b3 led last and is dead. b1 missed what b3 wrote alone, b2 missed more. `diverged` is played too:
there b2 holds 50 records that b1, the one to elect, never had.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.scenarios.behind import begun
from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
)
from breakglass.services.lab.scenarios.scenario import (
    Scenario,
    Script,
    Stage,
    wait_log_end,
)
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import TopicPartition
from tests.lab.recover.incident.beside import delete_records
from tests.lab.scenarios.damaged import Damaged, damaged

SHARED, B1_ALSO = 40, 25
"""Records of every replica, and those that b2 missed."""
COMMITTED, ABORTED, OPEN = 5, 4, 3
"""Records of the three transactions that b2 missed."""
TRIMMED = 30
"""What b3 and b1 deleted of the front."""
COORDINATOR = 1
SECONDS = 120.0

LEDGER = TopicPartition("ledger", 0)
PAYMENTS = TopicPartition("payments", 0)
REFUNDS = TopicPartition("refunds", 0)
AGED = TopicPartition("aged", 0)
BY_PLAN = (TopicPartition("by-plan", 0), TopicPartition("by-plan", 1))
BY_LOG = (TopicPartition("by-log", 0), TopicPartition("by-log", 1))
ACCOUNTED = tuple(TopicPartition("accounted", number) for number in range(3))
"""For the ledger: b2 missed the transactions of the first and records of the last; the front of
the second is trimmed."""
FULL = TopicPartition("full", 0)
SAFE = TopicPartition("full", 1)
WITHOUT = TopicPartition("without", 0)
TYPED = tuple(TopicPartition("typed", number) for number in range(3))
"""For the console on a terminal."""
PLAIN = (*BY_PLAN, *BY_LOG, FULL, SAFE, WITHOUT, *TYPED)


def _script(stage: Stage) -> Script:
    transactions = int(SMALL["transaction.state.log.num.partitions"])
    stage.create("__transaction_state", [(COORDINATOR,)] * transactions)
    for topic in ("by-plan", "by-log", "full"):
        stage.create(topic, [(3, 1, 2)] * 2)
    for topic in ("accounted", "typed"):
        stage.create(topic, [(3, 1, 2)] * 3)
    for topic in ("without", "payments", "refunds", "aged"):
        stage.create(topic, [(3, 1, 2)])
    everywhere = [*PLAIN, PAYMENTS, REFUNDS, AGED, *ACCOUNTED]
    stage.write(everywhere, SHARED)
    yield B2_LOST
    stage.write([*PLAIN, ACCOUNTED[2]], B1_ALSO)
    _transactions(stage, PAYMENTS)
    _transactions(stage, REFUNDS)
    _transactions(stage, ACCOUNTED[0])
    # The dead b2 keeps the front.
    delete_records(stage.cluster, AGED, TRIMMED)
    delete_records(stage.cluster, ACCOUNTED[1], TRIMMED)
    yield B1_LOST
    yield LAST_LOST
    return list[Expectation]()


def _transactions(stage: Stage, partition: TopicPartition) -> None:
    """One that is committed, one that is aborted, one that nobody ends; b1 gets them all."""
    first = _in_transaction(stage, partition, "first", COMMITTED)
    first.commit_transaction(SECONDS)
    second = _in_transaction(stage, partition, "second", ABORTED)
    second.abort_transaction(SECONDS)
    _in_transaction(stage, partition, "third", OPEN)
    markers = 2
    end = SHARED + COMMITTED + ABORTED + OPEN + markers
    wait_log_end(stage.cluster, partition, end, 1, 3)


def _in_transaction(stage: Stage, partition: TopicPartition, name: str, count: int) -> Any:
    """A producer that has written *count* records and not ended its transaction."""
    producer = begun(stage.cluster, f"{partition}-{name}")
    for number in range(count):
        key = f"{name}-{number}".encode()
        producer.produce(partition.topic, partition=partition.partition, key=key, value=key)
    assert producer.flush(SECONDS) == 0
    return producer


FOR_RESCUE = Scenario("for-rescue", __doc__ or "", _script, course=COURSE, shape=QUICK_TO_FENCE)
QUICK_CHECKPOINTS = {"log.flush.start.offset.checkpoint.interval.ms": "200"}


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """The lab; each partition is one test's."""
    folder = tmp_path_factory.mktemp("for-rescue")
    with damaged(folder, "diverged", beside=[FOR_RESCUE], overrides=QUICK_CHECKPOINTS) as lab:
        yield lab
