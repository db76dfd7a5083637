"""`hung-designee`: the best replica's broker hangs, and the controller has not noticed yet (R6).

Elected now, it would be reported as the leader and serve nothing. The brokers are stopped, not
killed, because the controller is to be so patient here that a death would take long to notice.
With the option ``hang=no`` the last step is left to the test, which may read evidence before.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.lab.scenarios.damage import bring_back, stop
from services.lab.scenarios.scenario import Scenario, Shape, alone
from services.lab.scenarios.stage import Stage
from services.lab.truth import Expectation, Verdict

TOPIC = "payments"
HANGS = "hang"
PATIENCE = {"broker.session.timeout.ms": "45000"}
"""How long the hung broker stays unfenced: what a test has to look and elect in."""


def _script(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    (partition,) = stage.create(TOPIC, [(3, 2, 1)])
    stage.write([partition], 40)
    stop(cluster, 2)
    stage.write([partition], 30)
    stop(cluster, 1)
    stage.write([partition], 8)
    stop(cluster, 3)
    bring_back(cluster, 1, 2)
    hangs = stage.options[HANGS] == "yes"
    if hangs:
        cluster.broker(1).pause()
    return [
        Expectation(
            partition,
            Verdict.WAIT,
            broker=3,
            designee=2 if hangs else 1,
            why="b3 led last and is intact; b1 holds the most of the others, and hangs unfenced",
            if_gone=Verdict.SAFE,
        )
    ]


SCENARIO = Scenario(
    "hung-designee",
    "The best replica hangs, and the controller still takes it for alive.",
    alone(_script),
    shape=Shape(overrides=PATIENCE),
    options={HANGS: "yes"},
)
