"""`all-replicas-gone`: no broker that holds the partition answers; others do."""

from __future__ import annotations

import logging

from breakglass.services.lab.scenarios.damage import lose, wait_gone
from breakglass.services.lab.scenarios.scenario import Scenario, alone
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict
from breakglass.services.model import TopicPartition

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())

TOPIC = "archive"
GROUP = "auditors"
READ_TO = 120
"""What the group committed: the only trace of the log that is left in reach (R11)."""


def _script(stage: Stage) -> list[Expectation]:
    cluster = stage.cluster
    (partition,) = stage.create(TOPIC, [(1, 2)])
    stage.write([partition], 100)
    _commit(stage, partition, 100)
    lose(cluster, 2)
    stage.write([partition], 25)
    _commit(stage, partition, READ_TO)
    cluster.broker(1).kill()
    wait_gone(cluster, 1)
    stage.notes[f"committed offset of {GROUP}"] = str(READ_TO)
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=1,
            designee=None,
            why="b1 led last; nobody who holds anything answers, and a group had read 120",
            if_gone=TrueVerdict.STUCK,
        )
    ]


def _commit(stage: Stage, partition: TopicPartition, offset: int) -> None:
    from confluent_kafka import Consumer, KafkaException
    from confluent_kafka import TopicPartition as Position

    consumer = Consumer(
        {"bootstrap.servers": stage.cluster.lab_bootstrap, "group.id": GROUP}, logger=logger
    )
    position = Position(partition.topic, partition.partition, offset)

    def committed() -> bool:
        try:
            consumer.commit(offsets=[position], asynchronous=False)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    try:
        stage.cluster.wait_until(committed, f"the coordinator of group {GROUP} to have loaded it")
    finally:
        consumer.close()


SCENARIO = Scenario("all-replicas-gone", __doc__, alone(_script))
