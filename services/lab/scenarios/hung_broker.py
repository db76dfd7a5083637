"""`hung-broker`: a broker that holds replicas accepts connections and never answers (SIGSTOP)."""

from __future__ import annotations

from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    LAST_LOST,
    QUICK_TO_FENCE,
    hang,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict

TOPIC = "shipments"
ASSIGNMENTS = ((3, 1, 2), (3, 2, 1))


def _script(stage: Stage) -> Script:
    partitions = stage.create(TOPIC, ASSIGNMENTS)
    stage.write(partitions, 60)
    yield B2_LOST
    stage.write(partitions, 15)
    yield B1_LOST
    stage.write(partitions, 5)
    yield LAST_LOST
    hang(stage.cluster, 2)
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=1,
            why="b3 led last and is intact; b2 hangs, and nobody can tell that it holds less",
            if_gone=TrueVerdict.WAIT,
        )
        for partition in partitions
    ]


SCENARIO = Scenario(
    "hung-broker",
    "A broker that holds replicas hangs: connected, without an answer.",
    _script,
    shape=QUICK_TO_FENCE,
)
