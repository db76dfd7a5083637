"""`hung-designee`: the best replica's broker hangs, and the controller has not noticed yet (R6).

If elected now, the broker would be reported as the leader and serve no request. With the option
``hang=no`` the test does the last step itself, and may read evidence before.
"""

from __future__ import annotations

from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    LAST_LOST,
    QUICK_TO_FENCE,
    make_patient,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict

TOPIC = "payments"
HANGS = "hang"
PATIENCE_SECONDS = 600
"""How long the hung broker stays unfenced: what a test has to look and elect in."""


def _script(stage: Stage) -> Script:
    (partition,) = stage.create(TOPIC, [(3, 2, 1)])
    stage.write([partition], 40)
    yield B2_LOST
    stage.write([partition], 30)
    yield B1_LOST
    stage.write([partition], 8)
    yield LAST_LOST
    make_patient(stage.cluster, PATIENCE_SECONDS)
    hangs = stage.options[HANGS] == "yes"
    if hangs:
        stage.cluster.broker(1).pause()
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=2 if hangs else 1,
            why="b3 led last and is intact; b1 holds the most of the others, and hangs unfenced",
            if_gone=TrueVerdict.WAIT if hangs else TrueVerdict.SAFE,
        )
    ]


SCENARIO = Scenario(
    "hung-designee",
    "The best replica hangs, and the controller still takes it for alive.",
    _script,
    shape=QUICK_TO_FENCE,
    options={HANGS: "yes"},
)
