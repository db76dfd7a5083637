"""A lab with a topic for each test of the electing commands: all of them offline but one.

b3 led last and is dead; b1 missed what b3 wrote alone, b2 missed more and is the shorter.
"""

import re
from collections.abc import Iterator, Sequence

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Script, Stage
from breakglass.services.lab.segments import HIGH_WATERMARK_CHECKPOINT
from breakglass.services.lab.topics import configure_topic, create_topics
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import TopicPartition
from tests.lab.scenarios.damaged import damaged

SHARED, B1_ALSO, B3_ALONE = 60, 15, 5
"""Records of every replica, of b1 and b3, of b3."""

B1_FIRST, B2_FIRST = (3, 1, 2), (3, 2, 1)
OFFLINE: dict[str, Sequence[Sequence[int]]] = {
    "whole-way": (B1_FIRST, B2_FIRST, B2_FIRST, B1_FIRST),
    "bare": (B1_FIRST, B2_FIRST),
    "by-order": (B1_FIRST, B2_FIRST),
    "moved-on": (B1_FIRST, B2_FIRST),
    "recreated": (B1_FIRST,),
    "unreachable": (B1_FIRST,),
    "refusals": (B1_FIRST,),
    "unclean": (B2_FIRST, B1_FIRST),
    "designated": (B1_FIRST, B2_FIRST),
    "kafkas-form": (B2_FIRST,),
    "typed": (B1_FIRST, B2_FIRST, B2_FIRST),
    "once": (B1_FIRST,),
    "cut-off": (B1_FIRST, B2_FIRST, B1_FIRST),
    "bundled": (B1_FIRST, B2_FIRST),
    "outdated": (B1_FIRST, B2_FIRST),
    "outdated-again": (B1_FIRST,),
}
LAGGING, ACKED = TopicPartition("lagging", 0), TopicPartition("acked", 0)
READABLE = SHARED
"""The high watermark that b1 comes back with in both, which it checkpoints now and then. The topic
of `LAGGING` demands two replicas in sync, and b1 is alone."""
PREFERRED = "preferred"
"""Online: led by b1, though b2 stands first in its assignment."""


def _script(stage: Stage) -> Script:
    topics = {**OFFLINE, PREFERRED: ((2, 1), (2, 1), (2, 1)), LAGGING.topic: ((3, 1),)}
    topics[ACKED.topic] = (B1_FIRST,)
    create_topics(stage.cluster, topics)
    partitions = [
        TopicPartition(topic, number)
        for topic, assignments in topics.items()
        for number in range(len(assignments))
    ]
    stage.write(partitions, SHARED)
    yield B2_LOST
    stage.write(partitions, B1_ALSO)
    yield B1_LOST
    _forget_high_watermark(stage)
    stage.write([partition for partition in partitions if partition.topic != PREFERRED], B3_ALONE)
    yield LAST_LOST
    configure_topic(stage.cluster, LAGGING.topic, {"min.insync.replicas": "2"})
    for partition in partitions:
        if partition.topic == PREFERRED:
            stage.wait_isr(partition, 1, 2)
    return list[Expectation]()


def _forget_high_watermark(stage: Stage) -> None:
    """Let b1, which is down, come back with an older high watermark of `LAGGING` and `ACKED`."""
    (logs,) = stage.cluster.broker(1).layout.log_dirs
    path = logs / HIGH_WATERMARK_CHECKPOINT
    text = path.read_text(encoding="utf-8")
    for partition in (LAGGING, ACKED):
        name = f"{partition.topic} {partition.partition}"
        text, found = re.subn(rf"(?m)^{name} \d+$", f"{name} {READABLE}", text)
        assert found == 1
    path.write_text(text, encoding="utf-8")


BROKEN = Scenario("for-commands", __doc__, _script, course=COURSE, shape=QUICK_TO_FENCE)


@pytest.fixture(scope="package")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The lab, without the controller's own leader balancing; each topic is one test's."""
    folder = tmp_path_factory.mktemp("for-commands")
    unbalanced = {"auto.leader.rebalance.enable": "false"}
    with damaged(folder, beside=[BROKEN], overrides=unbalanced) as lab:
        yield lab.cluster
