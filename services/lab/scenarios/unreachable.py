"""Scenarios of brokers, disks and controllers that hang, are cut off, forgotten or gone.

`hung-broker`: a broker that holds replicas accepts connections and never answers (SIGSTOP).

`hung-designee`: the best replica's broker hangs, and the controller has not noticed yet (R6). If
elected now, the broker would be reported as the leader and serve no request. With the option
``hang=no`` the test does the last step itself, and may read evidence before.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.controller_link import ControllerLink
from breakglass.services.lab.distribution import CLUSTER, run_tool
from breakglass.services.lab.node import fail_log_dir
from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
    bring_back,
    hang,
    lose,
    make_patient,
    wait_gone,
    wait_left,
)
from breakglass.services.lab.scenarios.scenario import (
    LabDamage,
    Scenario,
    Script,
    Shape,
    Stage,
    alone,
    wait_high_watermark,
)
from breakglass.services.lab.topics import reassign
from breakglass.services.lab.truth import Expectation, TrueVerdict, expect
from breakglass.services.model import TopicPartition

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())

ORDERS = ((3, 1, 2), (3, 2, 1))
HANGS = "hang"
PATIENCE_SECONDS = 600
"""How long the hung broker stays unfenced: what a test has to look and elect in."""
CUT_OFF = 3
"""The broker behind the link: the last one, because the lab asks the first that answers."""
QUICK_CHECKPOINTS = {"replica.high.watermark.checkpoint.interval.ms": "500"}
"""A broker notices a failed disk when it writes there; high watermarks it writes by itself."""
GROUP = "auditors"
READ_TO = 120
"""What the group committed: the only trace of the log that is left in reach (R11)."""


def _lost_in_turn(
    stage: Stage, partitions: Sequence[TopicPartition], *counts: int
) -> Generator[LabDamage, None, None]:
    """Write so many records before b2, b1 and the last leaders are lost."""
    for count, damage in zip(counts, (B2_LOST, B1_LOST, LAST_LOST), strict=True):
        stage.write(partitions, count)
        yield damage


def _hung_broker(stage: Stage) -> Script:
    partitions = stage.create("shipments", ORDERS)
    yield from _lost_in_turn(stage, partitions, 60, 15, 5)
    hang(stage.cluster, 2)
    why = "b3 led last and is intact; b2 hangs, and nobody can tell that it holds less"
    return expect(partitions, TrueVerdict.WAIT, why, 3, 1, if_gone=TrueVerdict.WAIT)


def _hung_designee(stage: Stage) -> Script:
    partitions = stage.create("payments", [(3, 2, 1)])
    yield from _lost_in_turn(stage, partitions, 40, 30, 8)
    make_patient(stage.cluster, PATIENCE_SECONDS)
    why = "b3 led last and is intact; b1 holds the most of the others, and hangs unfenced"
    if stage.options[HANGS] != "yes":
        return expect(partitions, TrueVerdict.WAIT, why, 3, 1, if_gone=TrueVerdict.SAFE)
    stage.cluster.broker(1).pause()
    return expect(partitions, TrueVerdict.WAIT, why, 3, 2, if_gone=TrueVerdict.WAIT)


def _fenced_designee(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    partitions = stage.create("payments", ((2, 3, 1), (2, 1, 3)))
    stage.write(partitions, 100)
    for partition in partitions:
        wait_high_watermark(cluster, partition, 100, 1)
    cluster.broker(1).stop()
    wait_left(cluster, 1)
    stage.write(partitions, 35)
    for partition in partitions:
        wait_high_watermark(cluster, partition, 135, CUT_OFF)
    ControllerLink(cluster, CUT_OFF).cut()
    wait_gone(cluster, CUT_OFF)
    cluster.broker(2).kill()
    cluster.broker(1).start()
    cluster.wait_unfenced(1)
    wait_gone(cluster, 2)
    why = (
        "b2 led last and is intact; b3 holds as much but is fenced, so that only b1, "
        "which misses 35 records, can be elected"
    )
    return expect(partitions, TrueVerdict.WAIT, why, 2, 1, if_gone=TrueVerdict.LOSS)


def _reassigning(stage: Stage) -> Script:
    # The replica that is added comes first: an election by order would choose it, empty.
    (partition,) = stage.create("shipments", [(3, 1)])
    stage.write([partition], 100)
    yield B2_LOST
    reassign(stage.cluster, {partition: (2, 1)})
    stage.write([partition], 25)
    yield B1_LOST
    stage.write([partition], 10)
    yield LAST_LOST
    stage.notes["reassignment adds"] = "2"
    stage.notes["reassignment removes"] = "3"
    why = (
        "b3 led last and is intact; without it the reassignment that adds the empty b2 "
        "and removes b3 has to be ended first, because a reorder would alter it"
    )
    return expect([partition], TrueVerdict.WAIT, why, 3, if_gone=TrueVerdict.STUCK)


def _unregistered(stage: Stage) -> Script:
    partitions = stage.create("archive", ORDERS)
    yield from _lost_in_turn(stage, partitions, 100, 25, 10)
    yield LabDamage("b3 is unregistered", _unregister)
    alive = "b3 led last and is unregistered; b1 holds more than b2 and is the first live one"
    stuck = "b3 led last and is unregistered, and no order that names it is taken any more"
    return [
        *expect(partitions[:1], TrueVerdict.WAIT, alive, 3, 1, if_gone=TrueVerdict.SAFE),
        *expect(partitions[1:], TrueVerdict.STUCK, stuck),
    ]


def _unregister(cluster: Cluster) -> None:
    """By Kafka's own tool: kafka-python has no schema of the request."""
    arguments = ["unregister", "--bootstrap-server", cluster.lab_bootstrap, "--id", "3"]
    run_tool(cluster.kafka, CLUSTER, arguments).check()
    cluster.wait_unregistered(3)


def _failed_log_dir(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    partitions = stage.create("readings", ((1, 2), (1, 2)))
    stage.write(partitions, 100)
    lose(cluster, 2)
    stage.write(partitions, 25)
    failed = partitions[0]
    folder = cluster.broker(1).partition_folder(failed.topic, failed.partition)
    assert folder is not None, "the leader has a log"
    fail_log_dir(folder.parent)
    stage.mark_disk(1, "failed", failed)
    stage.notes["failed log directory"] = str(folder.parent)
    cluster.wait_partition(failed.topic, 0, lambda state: state.offline, "no leader")
    bring_back(cluster, 2)
    lost = (
        "b1 runs, but the log directory that held 25 more records is offline; b2 has "
        "everything that can be read, and loses what b1 held unless its disk is repaired"
    )
    return [
        *expect([failed], TrueVerdict.LOSS, lost, 2, 2),
        *expect(partitions[1:], None, "b1 leads it from its other log directory"),
    ]


def _controllers_down(stage: Stage) -> Script:
    partitions = stage.create("orders", ORDERS)
    yield from _lost_in_turn(stage, partitions, 100, 25, 10)
    yield LabDamage("the controllers are lost", _lose_controllers)
    why = "no quorum, no election; what b1 and b2 hold can still be read and rescued"
    return expect(partitions, TrueVerdict.STUCK, why)


def _lose_controllers(cluster: Cluster) -> None:
    for controller in cluster.controllers:
        controller.kill()


def _all_gone(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    (partition,) = stage.create("archive", [(1, 2)])
    stage.write([partition], 100)
    _commit(stage, partition, 100)
    lose(cluster, 2)
    stage.write([partition], 25)
    _commit(stage, partition, READ_TO)
    cluster.broker(1).kill()
    wait_gone(cluster, 1)
    stage.notes[f"committed offset of {GROUP}"] = str(READ_TO)
    why = "b1 led last; nobody who holds anything answers, and a group had read 120"
    return expect([partition], TrueVerdict.WAIT, why, 1, if_gone=TrueVerdict.STUCK)


def _commit(stage: Stage, partition: TopicPartition, offset: int) -> None:
    from confluent_kafka import Consumer, KafkaException
    from confluent_kafka import TopicPartition as Position

    consumer = Consumer(
        {"bootstrap.servers": stage.cluster.lab_bootstrap, "group.id": GROUP}, logger=logger
    )
    position = Position(partition.topic, partition.partition, offset)

    def committed() -> bool:
        try:
            consumer.commit(offsets=[position], asynchronous=False)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    try:
        stage.cluster.wait_until(committed, f"the coordinator of group {GROUP} to have loaded it")
    finally:
        consumer.close()


HUNG_BROKER = Scenario(
    "hung-broker",
    "A broker that holds replicas hangs: connected, without an answer.",
    _hung_broker,
    shape=QUICK_TO_FENCE,
)
HUNG_DESIGNEE = Scenario(
    "hung-designee",
    "The best replica hangs, and the controller still takes it for alive.",
    _hung_designee,
    shape=QUICK_TO_FENCE,
    options={HANGS: "yes"},
)
FENCED_DESIGNEE = Scenario(
    "fenced-designee",
    "Clients reach the replica that holds the most; its controllers do not.",
    alone(_fenced_designee),
    shape=Shape(prepare=lambda cluster: ControllerLink(cluster, CUT_OFF).plan()),
)
REASSIGNING = Scenario(
    "reassigning",
    "The partition went offline while it was being moved, and still is.",
    _reassigning,
    course=COURSE,
)
UNREGISTERED_BROKER = Scenario(
    "unregistered-broker",
    "The assignment names a broker that the cluster has forgotten.",
    _unregistered,
)
FAILED_LOG_DIR = Scenario(
    "failed-logdir",
    "The leader's broker lives, but the disk under the partition has failed.",
    alone(_failed_log_dir),
    shape=Shape(brokers=2, log_dirs=2, overrides=QUICK_CHECKPOINTS),
)
CONTROLLER_DOWN = Scenario(
    "controller-down",
    "Partitions are offline, and there is no controller to elect anybody.",
    _controllers_down,
)
ALL_REPLICAS_GONE = Scenario(
    "all-replicas-gone",
    "No broker that holds the partition answers; others do.",
    alone(_all_gone),
)
