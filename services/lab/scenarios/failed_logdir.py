"""`failed-logdir`: the leader's broker lives, but the disk under the partition has failed."""

from __future__ import annotations

from breakglass.services.lab.node import fail_log_dir
from breakglass.services.lab.scenarios.damage import bring_back, lose
from breakglass.services.lab.scenarios.scenario import Scenario, Shape, alone
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict

TOPIC = "readings"
ASSIGNMENTS = ((1, 2), (1, 2))
QUICK_CHECKPOINTS = {"replica.high.watermark.checkpoint.interval.ms": "500"}
"""A broker notices a failed disk when it writes there; high watermarks it writes by itself."""


def _script(stage: Stage) -> list[Expectation]:
    cluster = stage.cluster
    on_failed, on_other = stage.create(TOPIC, ASSIGNMENTS)
    stage.write([on_failed, on_other], 100)
    lose(cluster, 2)
    stage.write([on_failed, on_other], 25)
    folder = cluster.broker(1).partition_folder(on_failed.topic, on_failed.partition)
    assert folder is not None, "the leader has a log"
    fail_log_dir(folder.parent)
    stage.mark_disk(1, "failed", on_failed)
    stage.notes["failed log directory"] = str(folder.parent)
    cluster.wait_partition(TOPIC, 0, lambda state: state.offline, "no leader")
    bring_back(cluster, 2)
    return [
        Expectation(
            on_failed,
            TrueVerdict.LOSS,
            broker=2,
            designee=2,
            why=(
                "b1 runs, but the log directory that held 25 more records is offline; b2 has "
                "everything that can be read, and loses what b1 held unless its disk is repaired"
            ),
        ),
        Expectation(
            on_other,
            None,
            broker=None,
            designee=None,
            why="b1 leads it from its other log directory",
        ),
    ]


SCENARIO = Scenario(
    "failed-logdir",
    __doc__,
    alone(_script),
    shape=Shape(brokers=2, log_dirs=2, overrides=QUICK_CHECKPOINTS),
)
