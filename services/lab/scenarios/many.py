"""`many`: thousands of offline partitions, each with two live replicas that missed the end."""

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

TOPIC = "events"
PARTITIONS = "partitions"
ORDERS = ((3, 1, 2), (3, 2, 1))
"""b3 leads each partition; an election by order is wrong for every second partition."""


def _script(stage: Stage) -> Script:
    count = stage.number(PARTITIONS)
    partitions = stage.create(TOPIC, [ORDERS[number % 2] for number in range(count)])
    stage.write_bulk(partitions, 2)
    yield B2_LOST
    stage.write_bulk(partitions, 1)
    yield B1_LOST
    yield LAST_LOST
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=1,
            why="b3 led last and is intact; b1 holds a record that b2 missed",
            if_gone=TrueVerdict.SAFE,
        )
        for partition in partitions
    ]


SCENARIO = Scenario(
    "many",
    "Two thousand offline partitions, two stale replicas of each alive.",
    _script,
    course=COURSE,
    shape=QUICK_TO_FENCE,
    options={PARTITIONS: "2000"},
)
