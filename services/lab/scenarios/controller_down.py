"""`controller-down`: partitions are offline, and there is no controller to elect anybody (R20)."""

from __future__ import annotations

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, LAST_LOST
from breakglass.services.lab.scenarios.scenario import LabDamage, Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict

TOPIC = "orders"
ASSIGNMENTS = ((3, 1, 2), (3, 2, 1))


def _script(stage: Stage) -> Script:
    partitions = stage.create(TOPIC, ASSIGNMENTS)
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    yield B1_LOST
    stage.write(partitions, 10)
    yield LAST_LOST
    yield LabDamage("the controllers are lost", _lose_controllers)
    return [
        Expectation(
            partition,
            TrueVerdict.STUCK,
            broker=None,
            designee=None,
            why="no quorum, no election; what b1 and b2 hold can still be read and rescued",
        )
        for partition in partitions
    ]


def _lose_controllers(cluster: Cluster) -> None:
    for controller in cluster.controllers:
        controller.kill()


SCENARIO = Scenario("controller-down", __doc__, _script)
