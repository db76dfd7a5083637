"""`replaced-disk`: the last leader is back with an empty disk, about to be elected (R1, R2)."""

from __future__ import annotations

from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    B4_EMPTY,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
)
from breakglass.services.lab.scenarios.logs import wait_log_end
from breakglass.services.lab.scenarios.scenario import Scenario, Script, Shape
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import TrueVerdict, expect

TOPIC = "carts"
ASSIGNMENTS = ((4, 1, 2), (4, 2, 1), (1, 4, 2))
ELECTION_INTERVAL = "leader.imbalance.check.interval.seconds"
"""How often the controller elects by itself, leaderless partitions included; no dynamic setting."""
HELD_OFF = {**QUICK_TO_FENCE.overrides, ELECTION_INTERVAL: "3600"}
AT_ONCE = {**QUICK_TO_FENCE.overrides, ELECTION_INTERVAL: "2"}


def _script(stage: Stage) -> Script:
    partitions = stage.create(TOPIC, ASSIGNMENTS)
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    yield B1_LOST
    stage.write(partitions, 25)
    yield LAST_LOST
    yield B4_EMPTY
    stage.mark_disk(4, "replaced")
    why = "b4 led last and is back EMPTY; once it is stopped, b1 holds the most"
    return expect(partitions, TrueVerdict.BOMB, why, 4, 1, if_gone=TrueVerdict.SAFE)


def _script_to_the_end(stage: Stage) -> Script:
    bombs = yield from _script(stage)
    for bomb in bombs:
        stage.wait_leader(bomb.partition, 4)
        wait_log_end(stage.cluster, bomb.partition, 0, 1, 2, 4)
    led = [bomb.partition for bomb in bombs]
    return expect(led, None, "b4 leads, EMPTY; all followed it to 0")


SCENARIO = Scenario(
    "replaced-disk",
    "The last leader is back with an empty disk, and will be elected by the controller.",
    _script,
    shape=Shape(brokers=4, overrides=HELD_OFF),
    course=COURSE,
)
UNATTENDED = Scenario(
    "replaced-disk-unattended",
    "The same, left to the controller: it elects the empty replica, and every record is lost.",
    _script_to_the_end,
    shape=Shape(brokers=4, overrides=AT_ONCE),
    course=COURSE,
)
