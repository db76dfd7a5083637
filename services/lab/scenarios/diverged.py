"""`diverged`: two replicas hold records that the other does not; the shorter log is the newer."""

from __future__ import annotations

from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_ALONE,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
    reorder,
)
from breakglass.services.lab.scenarios.logs import wait_log_end
from breakglass.services.lab.scenarios.scenario import Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import TrueVerdict, expect

TOPIC = "ledger"


def _script(stage: Stage) -> Script:
    (partition,) = stage.create(TOPIC, [(3, 2, 1)])
    stage.write([partition], 100)
    reorder(stage.cluster, partition, (2, 1, 3))
    yield B2_ALONE
    stage.write([partition], 50, acks="1", committed=False)
    yield B2_LOST
    stage.wait_leader(partition, 1)
    # What b2 alone took reached nobody: without that, no two logs would diverge.
    wait_log_end(stage.cluster, partition, 100, 1)
    stage.write([partition], 25)
    yield B1_LOST
    stage.wait_leader(partition, 3)
    yield LAST_LOST
    why = (
        "b3 led last, without a record of its own; b1 wrote 25 committed records in a "
        "later epoch than the 50 that b2 alone took with acks=1, though its log is shorter"
    )
    return expect([partition], TrueVerdict.WAIT, why, 3, 1, if_gone=TrueVerdict.LOSS)


SCENARIO = Scenario(
    "diverged",
    "Two replicas hold records the other lacks, and the shorter one must win.",
    _script,
    course=COURSE,
    shape=QUICK_TO_FENCE,
)
