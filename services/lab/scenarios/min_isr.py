"""`min-isr-2-one-alive`: min.insync.replicas is 2 and one replica is left to elect (R7).

Once elected, the replica leads and accepts acks=1, but consumers cannot read: its high watermark
was never checkpointed, so it is 0, and it does not advance while the ISR is smaller than 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.lab.scenarios.damage import QUICK_TO_FENCE, lose, lose_last
from breakglass.services.lab.scenarios.scenario import Scenario, Shape, alone
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict

TOPIC = "accounts"
NO_CHECKPOINT = {
    **QUICK_TO_FENCE.overrides,
    "replica.high.watermark.checkpoint.interval.ms": "3600000",
}


def _script(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    (partition,) = stage.create(TOPIC, [(3, 2, 1)], {"min.insync.replicas": "2"})
    stage.write([partition], 78)
    lose(cluster, 1)
    stage.write([partition], 12)
    lose(cluster, 2)
    stage.write([partition], 4, acks="1", committed=False)
    lose_last(cluster, 3, back=(1,))
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=1,
            why="b3 and b2 are ELR members and intact; b1, the only one alive, missed 12 records",
            if_gone=TrueVerdict.WAIT,
        )
    ]


SCENARIO = Scenario(
    "min-isr-2-one-alive",
    "min.insync.replicas is 2, and a single stale replica is alive.",
    alone(_script),
    shape=Shape(overrides=NO_CHECKPOINT),
)
