"""`reassigning`: the partition went offline while it was being moved, and still is (R12)."""

from __future__ import annotations

from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, COURSE, LAST_LOST
from breakglass.services.lab.scenarios.scenario import Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.topics import reassign
from breakglass.services.lab.truth import Expectation, TrueVerdict

TOPIC = "shipments"
FROM, TO = (3, 1), (2, 1)
"""The replica that is being added comes first: an election by order would choose it, empty."""


def _script(stage: Stage) -> Script:
    (partition,) = stage.create(TOPIC, [FROM])
    stage.write([partition], 100)
    yield B2_LOST
    reassign(stage.cluster, {partition: TO})
    stage.write([partition], 25)
    yield B1_LOST
    stage.write([partition], 10)
    yield LAST_LOST
    stage.notes["reassignment adds"] = "2"
    stage.notes["reassignment removes"] = "3"
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=None,
            why=(
                "b3 led last and is intact; without it the reassignment that adds the empty b2 "
                "and removes b3 has to be ended first, because a reorder would alter it"
            ),
            if_gone=TrueVerdict.STUCK,
        )
    ]


SCENARIO = Scenario("reassigning", __doc__, _script, course=COURSE)
