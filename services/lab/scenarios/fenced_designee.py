"""`fenced-designee`: clients reach the replica that holds the most; its controllers do not."""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.controller_link import ControllerLink
from breakglass.services.lab.scenarios.damage import wait_gone, wait_left
from breakglass.services.lab.scenarios.logs import wait_high_watermark
from breakglass.services.lab.scenarios.scenario import Scenario, Shape, alone
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict
from breakglass.services.model import TopicPartition

TOPIC = "payments"
ASSIGNMENTS = ((2, 3, 1), (2, 1, 3))
CUT_OFF = 3
"""The broker behind the link: the last one, because the lab asks the first that answers."""


def _prepare(cluster: Cluster) -> None:
    ControllerLink(cluster, CUT_OFF).plan()


def _script(stage: Stage) -> list[Expectation]:
    cluster = stage.cluster
    partitions = stage.create(TOPIC, ASSIGNMENTS)
    stage.write(partitions, 100)
    _wait_heard(stage, partitions, 100, 1)
    cluster.broker(1).stop()
    wait_left(cluster, 1)
    stage.write(partitions, 35)
    _wait_heard(stage, partitions, 135, CUT_OFF)
    ControllerLink(cluster, CUT_OFF).cut()
    wait_gone(cluster, CUT_OFF)
    cluster.broker(2).kill()
    cluster.broker(1).start()
    cluster.wait_unfenced(1)
    wait_gone(cluster, 2)
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=2,
            designee=1,
            why=(
                "b2 led last and is intact; b3 holds as much but is fenced, so that only b1, "
                "which misses 35 records, can be elected"
            ),
            if_gone=TrueVerdict.LOSS,
        )
        for partition in partitions
    ]


def _wait_heard(stage: Stage, partitions: Sequence[TopicPartition], mark: int, broker: int) -> None:
    for partition in partitions:
        wait_high_watermark(stage.cluster, partition, mark, broker)


SCENARIO = Scenario("fenced-designee", __doc__, alone(_script), shape=Shape(prepare=_prepare))
