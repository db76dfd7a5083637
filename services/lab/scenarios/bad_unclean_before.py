"""`bad-unclean-before`: an almost empty replica has the highest epoch, by an earlier mistake (R9).

b2 had 10 of 100 committed records when an operator elected it uncleanly; b3 followed b2 and led
after it. b1 kept its 100. By epoch b2 ranks first, and electing it would lose b1's committed
records. The operator then changed min.insync.replicas and back, which made the controller forget
that b3 led last (R3): b3 is not elected by itself, and may still have more records.
"""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import (
    QUICK_TO_FENCE,
    bring_back,
    lose,
    lose_last,
    wait_checkpointed,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Shape, alone
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.topics import configure_topic, elect_unclean
from breakglass.services.lab.truth import Expectation, TrueVerdict
from breakglass.services.model import TopicPartition, known

TOPIC = "balances"
MIN_ISR = "min.insync.replicas"
OFTEN = {**QUICK_TO_FENCE.overrides, "replica.high.watermark.checkpoint.interval.ms": "500"}


def _script(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    (partition,) = stage.create(TOPIC, [(1, 2, 3)], {MIN_ISR: "1"})
    stage.write([partition], 10)
    lose(cluster, 2)
    stage.write([partition], 90)
    wait_checkpointed(cluster, 1, partition, 100)
    lose(cluster, 3)
    lose_last(cluster, 1, back=(2,))
    elect_unclean(cluster, partition)
    stage.wait_leader(partition, 2)
    stage.write([partition], 3)
    bring_back(cluster, 3)
    stage.wait_isr(partition, 2, 3)
    lose(cluster, 2)
    stage.wait_leader(partition, 3)
    stage.write([partition], 2)
    lose_last(cluster, 3, back=(1, 2))
    _forget_last_leader(cluster, partition)
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=None,
            why=(
                "nobody knows what b3 holds, which is down; without it b1 holds 90 committed "
                "records that b2 lacks, and b2 3 of a later epoch that b1 lacks"
            ),
            if_gone=TrueVerdict.FORK,
        )
    ]


def _forget_last_leader(cluster: Cluster, partition: TopicPartition) -> None:
    for value in ("2", "1"):
        configure_topic(cluster, partition.topic, {MIN_ISR: value})
    cluster.wait_partition(
        partition.topic,
        partition.partition,
        lambda state: (
            not (known(state.elr) and state.elr)
            and not (known(state.last_known_elr) and state.last_known_elr)
        ),
        "no eligible or last known leader",
    )


SCENARIO = Scenario(
    "bad-unclean-before",
    "After an earlier bad unclean election an almost empty replica has the highest epoch.",
    alone(_script),
    shape=Shape(overrides=OFTEN),
)
