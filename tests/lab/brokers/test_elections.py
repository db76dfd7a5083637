"""What brokers answer to elections and reorders, and tell of when they hold one (R2, R12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.kafka.cluster.broker_settings import read_broker_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.replaced_disk import ELECTION_INTERVAL
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.lab.asking import election_code, reassign_code, reassignments
from tests.lab.brokers.conftest import sender_to
from tests.lab.scenarios.damaged import Damaged

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REPLICA_ASSIGNMENT = 39
ELECTION_NOT_NEEDED = 84


@pytest.fixture(scope="module")
def online(three_brokers: Cluster) -> TopicPartition:
    create_topic(three_brokers, "facts-of-elections", [[1, 2, 3]])
    return TopicPartition("facts-of-elections", 0)


def test_a_partition_with_a_leader_needs_none(
    three_brokers: Cluster, online: TopicPartition
) -> None:
    assert election_code(three_brokers, online)[0] == ELECTION_NOT_NEEDED


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (TopicPartition("no-such-topic", 0), "No such topic as no-such-topic"),
        (TopicPartition("facts-of-elections", 7), "No such partition as facts-of-elections-7"),
    ],
    ids=str,
)
def test_what_does_not_exist_is_unknown(
    three_brokers: Cluster, online: TopicPartition, partition: TopicPartition, message: str
) -> None:
    assert election_code(three_brokers, partition) == (UNKNOWN_TOPIC_OR_PARTITION, message)


@pytest.mark.parametrize("order", [[1, 2, 9], [9, 1, 2], [1, 2, 3, 9]])
def test_r12_an_assignment_with_an_unregistered_broker_is_refused(
    three_brokers: Cluster, online: TopicPartition, order: list[int]
) -> None:
    code, message = reassign_code(three_brokers, online, order)
    assert code == INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert "includes broker 9, but no such broker is registered" in message


def test_r02_brokers_tell_their_own_interval_and_not_the_controllers(tmp_path: Path) -> None:
    """Why no latest moment of an election is ever told: the timer is the active controller's own.

    It begins again with each new active controller, runs only with the controllers' own
    auto.leader.rebalance.enable, and waits five minutes after an error
    (PeriodicTaskControlManager.activate, ControllerServer of Kafka 4.3.1).
    """
    cluster = Cluster.plan(tmp_path / "lab", brokers=1, tethered=True)
    cluster.configure(1, {ELECTION_INTERVAL: "3600"})
    cluster.configure(101, {ELECTION_INTERVAL: "1800"})
    with cluster:
        cluster.start()
        with sender_to(cluster) as sender:
            told = read_broker_settings(sender, 1, [ELECTION_INTERVAL], Deadline.after(300))
    assert told == {ELECTION_INTERVAL: "3600"}


SECOND, THIRD = TopicPartition("orders", 1), TopicPartition("orders", 2)


@pytest.mark.parametrize(("partition", "order"), [(SECOND, [1, 3, 2]), (THIRD, [3, 2, 1])])
def test_a_reorder_ends_at_once_and_an_election_takes_the_first_live_one(
    offline: Damaged, partition: TopicPartition, order: list[int]
) -> None:
    assert reassign_code(offline.cluster, partition, order) == (0, None)
    assert reassignments(offline.cluster) == {}
    reordered = offline.cluster.wait_partition(
        partition.topic,
        partition.partition,
        lambda state: state.assignment == tuple(order),
        "the new order",
    )
    assert reordered.offline, "the reorder itself elects nobody"
    assert election_code(offline.cluster, partition) == (0, None)
    first_live = next(broker for broker in order if broker != 3)
    offline.cluster.wait_partition(
        partition.topic,
        partition.partition,
        lambda state: state.leader == first_live,
        f"b{first_live} to lead",
    )
