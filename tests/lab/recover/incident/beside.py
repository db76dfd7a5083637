"""Scenarios for rules alone, played beside the named ones: trimmed logs, groups that read on."""

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, COURSE, LAST_LOST
from breakglass.services.lab.scenarios.scenario import Scenario, Script, Shape, Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict
from breakglass.services.model import TopicPartition
from tests.lab.asking import commit, cut_head, on_disk

OFFSETS_PARTITIONS = int(SMALL["offsets.topic.num.partitions"])
TRIMMED = (TopicPartition("metrics", 0), TopicPartition("metrics", 1))
TRIMMED_TO = (60, 110)
"""Where b1's logs begin; b2 has both from 0 to 100, so that of the second it keeps nothing."""
STARTS_AT_ONCE = Shape(overrides={"log.flush.start.offset.checkpoint.interval.ms": "500"})
"""A killed broker comes back with the log start that it wrote down last."""
READ_ON = TopicPartition("clicks", 0)
GROUP = "readers"
READ_TO = 120
"""What the group committed of 125 records, 100 of which are on a replica that is left."""


def _trimmed(stage: Stage) -> Script:
    """Somebody deletes the first records while b2 is away."""
    partitions = stage.create(TRIMMED[0].topic, [(3, 2, 1)] * len(TRIMMED))
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    for partition, offset in zip(partitions, TRIMMED_TO, strict=True):
        delete_records(stage.cluster, partition, offset)
    yield B1_LOST
    yield LAST_LOST
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=1,
            why="b3 led last and is intact; b1 ends later than b2, and begins later",
            if_gone=TrueVerdict.LOSS,
        )
        for partition in partitions
    ]


def delete_records(cluster: Cluster, partition: TopicPartition, offset: int) -> None:
    """Delete what lies before *offset*; back when every replica in sync has it on disk."""
    state = cut_head(cluster, partition, offset)
    cluster.wait_until(
        lambda: all(on_disk(cluster, broker, partition).start == offset for broker in state.isr),
        f"every replica of {partition} to begin at {offset}",
    )


def _read_on(stage: Stage) -> Script:
    """A group commits what only the last leader has; its own offsets are safe on b1."""
    stage.create("__consumer_offsets", [(1,)] * OFFSETS_PARTITIONS, {"cleanup.policy": "compact"})
    (partition,) = stage.create(READ_ON.topic, [(3, 2)])
    stage.write([partition], 100)
    yield B2_LOST
    stage.write([partition], 25)
    commit(stage.cluster, GROUP, partition, READ_TO)
    yield B1_LOST
    yield LAST_LOST
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=3,
            designee=2,
            why="b3 led last and is intact; a group had read 20 of the 25 records that b2 missed",
            if_gone=TrueVerdict.LOSS,
        )
    ]


TRIMMED_LOGS = Scenario(
    "trimmed-logs", "The longer log begins later.", _trimmed, course=COURSE, shape=STARTS_AT_ONCE
)
GROUP_READ_ON = Scenario("group-read-on", "A group is past the end.", _read_on, course=COURSE)
