"""`empty-replica`: a replica without a record stands before the one to elect (KIP-1275).

In the KIP's pathological example, a replica joined the assignment too late to get data. Here the
replica was lost before the first record was written. An election by assignment order elects the
empty replica, and every other replica truncates its whole log.
"""

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

TOPIC = "invoices"


def _script(stage: Stage) -> Script:
    (partition,) = stage.create(TOPIC, [(3, 2, 1)])
    yield B2_LOST
    stage.write([partition], 100)
    yield B1_LOST
    stage.write([partition], 20)
    yield LAST_LOST
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=1,
            why="b3 led last and is intact; b2 comes before b1 in the assignment and is EMPTY",
            if_gone=TrueVerdict.SAFE,
        )
    ]


SCENARIO = Scenario(
    "empty-replica",
    "A replica with log end offset 0 stands before the one that holds records.",
    _script,
    course=COURSE,
    shape=QUICK_TO_FENCE,
)
