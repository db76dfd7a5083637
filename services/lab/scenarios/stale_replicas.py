"""`stale-replicas`: two replicas missed the end of the log; the last leader is dead."""

from __future__ import annotations

from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict

TOPIC = "orders"
ASSIGNMENTS = ((3, 1, 2), (3, 2, 1), (3, 2, 1))


def _script(stage: Stage) -> Script:
    partitions = stage.create(TOPIC, ASSIGNMENTS)
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    yield B1_LOST
    stage.write(partitions[:2], 10)
    yield LAST_LOST
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=1,
            why="b3 led last and is intact; of the others b1 holds 25 records that b2 missed",
            if_gone=TrueVerdict.SAFE,
        )
        for partition in partitions
    ]


SCENARIO = Scenario(
    "stale-replicas",
    "Two replicas missed the end of the log; the last leader is dead.",
    _script,
    course=COURSE,
    shape=QUICK_TO_FENCE,
)
