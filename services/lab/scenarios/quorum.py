"""Scenarios of a quorum that lost its majority for good, with copies of the metadata log left.

Brokers that run go on serving what they lead, so no partition is offline. What differs is which
copy of the metadata log is the best: a controller's, a broker's, or one that a blank majority would
replace. The notes of the truth name the disks that are gone and the nodes with the best copy.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.node import Node
from breakglass.services.lab.scenarios.damage import quorum_leader
from breakglass.services.lab.scenarios.scenario import Scenario, Shape, Stage, alone
from breakglass.services.lab.segments import BEFORE_LENGTH, HEADER
from breakglass.services.lab.topics import create_topic, reassign
from breakglass.services.lab.truth import Expectation, expect
from breakglass.services.model import TopicPartition

EVERYWHERE = ((1, 2, 3), (2, 3, 1))
LATE = "late"
"""A topic that only the later copies of the metadata know."""
LOST, BEST = "disks that are gone", "nodes with the best copy"
METADATA = "__cluster_metadata-0"
CUT_BATCHES = 20
"""What a power cut takes of a copy: ten seconds of idle controllers, or what was changed last."""
SERVING = "the brokers go on serving; no controller can elect anybody"


def _majority_lost(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    partitions = _served(stage)
    best = _leader(cluster)
    _change(stage)
    return _end(stage, partitions, [node for node in cluster.controllers if node.id != best], best)


def _only_a_lagging_copy(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    partitions = _served(stage)
    lagging = next(node for node in cluster.controllers if node.id != _leader(cluster))
    lagging.kill()
    _change(stage)
    lost = [node for node in cluster.controllers if node.id != lagging.id]
    expected = _end(stage, partitions, lost, *_brokers(cluster))
    lagging.start()
    return expected


def _controllers_lost(stage: Stage) -> Sequence[Expectation]:
    partitions = _served(stage)
    _change(stage)
    return _end(stage, partitions, stage.cluster.controllers, *_brokers(stage.cluster))


def _blank_majority(stage: Stage) -> Sequence[Expectation]:
    """The danger that `quorum` warns of, done: brokers rename every folder to a stray."""
    cluster = stage.cluster
    if cluster.layout.voters:
        raise LabError("blank-majority plays on a static quorum: leave out --dynamic.")
    _served(stage)
    best = _leader(cluster)
    _change(stage)
    for node in cluster.nodes:
        node.kill()
    blank = [node for node in cluster.controllers if node.id != best]
    for node in blank:
        cluster.wipe(node.id)
        node.start()
    for broker in cluster.brokers:
        # Its own copy may be of the epoch that the blank leader has, and end the process.
        shutil.rmtree(broker.layout.metadata_dir / METADATA)
        broker.start()
    cluster.wait_ready()
    cluster.wait_until(lambda: all(map(_only_strays, cluster.brokers)), "folders to become strays")
    _note(stage, blank, best)
    return []


def _broker_ahead(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    partitions = _served(stage)
    best = _leader(cluster)
    _change(stage)
    lost = [node for node in cluster.controllers if node.id != best]
    expected = _end(stage, partitions, lost, *_brokers(cluster))
    cluster.node(best).kill()
    _cut(cluster.node(best).layout.metadata_dir / METADATA)
    return expected


def _served(stage: Stage) -> tuple[TopicPartition, ...]:
    partitions = stage.create("orders", EVERYWHERE)
    stage.write(partitions, 100)
    return partitions


def _change(stage: Stage) -> None:
    """Make what a copy lacks that stopped before: a topic, its records, a reassignment."""
    create_topic(stage.cluster, LATE, EVERYWHERE)
    stage.write([TopicPartition(LATE, 0), TopicPartition(LATE, 1)], 25)
    reassign(stage.cluster, {TopicPartition("orders", 1): (3, 2, 1)})


def _end(
    stage: Stage, partitions: Sequence[TopicPartition], lost: Sequence[Node], *best: int
) -> list[Expectation]:
    """Lose the disks of *lost*; the partitions stay led."""
    for node in lost:
        node.kill()
        stage.cluster.wipe(node.id)
    _note(stage, lost, *best)
    return expect(partitions, None, SERVING)


def _note(stage: Stage, lost: Sequence[Node], *best: int) -> None:
    stage.notes[LOST] = ", ".join(str(node.id) for node in lost)
    stage.notes[BEST] = ", ".join(map(str, best))


def _brokers(cluster: Cluster) -> list[int]:
    return [node.id for node in cluster.brokers]


def _leader(cluster: Cluster) -> int:
    """The controller that leads: no copy is longer than its own."""
    found: list[int | None] = []

    def leads() -> bool:
        found[:] = [cluster.read(quorum_leader)]
        return found[0] is not None

    cluster.wait_until(leads, "a controller to lead")
    assert found[0] is not None
    return found[0]


def _only_strays(broker: Node) -> bool:
    folders = [path.name for one in broker.layout.log_dirs for path in one.glob("*-[0-9]*")]
    return bool(folders) and all(name.endswith("-stray") for name in folders)


def _cut(folder: Path) -> None:
    """Shorten a copy of the metadata log by its last batches, as a power cut does.

    Raises:
        LabError: its newest segment has fewer.
    """
    segment = max(folder.glob("*.log"))
    data = segment.read_bytes()
    starts = []
    position = 0
    # What follows the last batch is preallocated.
    while position + HEADER.size <= len(data) and (length := HEADER.unpack_from(data, position)[1]):
        starts.append(position)
        position += BEFORE_LENGTH + length
    if len(starts) <= CUT_BATCHES:
        raise LabError(f"{segment} has {len(starts)} batches, too few to cut: play it again.")
    segment.write_bytes(data[: starts[-CUT_BATCHES]])


def _scenario(
    name: str, summary: str, script: Callable[[Stage], Sequence[Expectation]]
) -> Scenario:
    return Scenario(name, summary, alone(script), shape=Shape(controllers=3))


MAJORITY_LOST = _scenario(
    "majority-lost",
    "Two of three controllers lost their disks; the third has the best copy of the metadata.",
    _majority_lost,
)
LAGGING_COPY = _scenario(
    "lagging-copy",
    "The only controller that is left was down while the cluster changed; brokers know more.",
    _only_a_lagging_copy,
)
CONTROLLERS_LOST = _scenario(
    "controllers-lost",
    "Every controller lost its disk; the brokers have copies of the metadata.",
    _controllers_lost,
)
BLANK_MAJORITY = _scenario(
    "blank-majority",
    "Two blank controllers were formatted and lead; brokers renamed all folders to -stray.",
    _blank_majority,
)
BROKER_AHEAD = _scenario(
    "broker-ahead",
    "A power cut shortened the only controller's copy that is left; brokers know more.",
    _broker_ahead,
)
