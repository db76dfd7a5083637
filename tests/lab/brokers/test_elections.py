"""What brokers answer to elections and reorders, without controllers and with a log directory that
is offline too, and what they tell of when they hold an election (R2, R12, R20, R21).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from breakglass.services.errors import TimedOut
from breakglass.services.kafka.cluster.describe_cluster import describe_quorum
from breakglass.services.kafka.cluster.log_dirs import offline_dirs, read_log_dirs
from breakglass.services.kafka.cluster.partitions import UNANSWERED, read_reassignments
from breakglass.services.kafka.cluster.settings import read_broker_settings
from breakglass.services.kafka.replicas.list_offsets import (
    LATEST,
    OffsetError,
    list_offsets,
    read_epoch_ends,
)
from breakglass.services.kafka.wire.answers import KAFKA_STORAGE_ERROR
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.node import fail_log_dir
from breakglass.services.lab.produce import produce
from breakglass.services.lab.scenarios.behind import ELECTION_INTERVAL
from breakglass.services.lab.scenarios.unreachable import QUICK_CHECKPOINTS
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import TopicPartition, Unknown
from tests.lab.asking import election_code, reassign_code, reassignments, unclean_election
from tests.lab.brokers.conftest import SECONDS, sender_to
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


LONELY = TopicPartition("lonely", 0)


@pytest.fixture(scope="module")
def headless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """b1 without a controller; `lonely-0`, on b2 that is back but was out of sync, is offline."""
    with Cluster.up(tmp_path_factory.mktemp("lab"), brokers=2, tethered=True) as cluster:
        create_topic(cluster, LONELY.topic, [[2, 1]])
        cluster.broker(1).stop()
        cluster.wait_partition(LONELY.topic, 0, lambda state: state.isr == (2,), "b2 to be alone")
        cluster.broker(2).kill()
        cluster.broker(1).start()
        cluster.wait_ready()
        cluster.wait_partition(LONELY.topic, 0, lambda state: state.offline, "no leader")
        cluster.node(101).kill()
        yield cluster


def test_r20_we_say_so_before_a_broker_does(headless: Cluster) -> None:
    with sender_to(headless) as sender:
        quorum = describe_quorum(sender, Deadline.after(SECONDS))
        moving = read_reassignments(sender, Deadline.after(SECONDS))
    assert isinstance(quorum, Unknown)
    assert moving == UNANSWERED, "the broker that was asked is healthy"


def test_an_election_that_was_given_up_is_held_once_there_is_a_controller(
    headless: Cluster,
) -> None:
    address = headless.broker(1).address(Listener.LAB)
    with Conversation(address, 1.0) as conversation, pytest.raises(TimedOut):
        conversation.ask(*unclean_election(LONELY))
    assert headless.partition(LONELY.topic, 0).offline
    headless.node(101).start()
    headless.wait_partition(LONELY.topic, 0, lambda state: state.leader == 1, "b1 to lead")


FAILED, OTHER = TopicPartition("readings", 0), TopicPartition("readings", 1)


class HalfBroken(NamedTuple):
    """One broker of two directories, one of them offline."""

    sender: Sender
    failed: Path
    other: Path


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HalfBroken]:
    folder = tmp_path_factory.mktemp("lab")
    with Cluster.up(
        folder, brokers=1, log_dirs=2, overrides=QUICK_CHECKPOINTS, tethered=True
    ) as cluster:
        create_topic(cluster, "readings", [[1], [1]])
        produce(cluster, "readings", 0, 10)
        holder = cluster.broker(1).partition_folder("readings", 0)
        assert holder is not None
        other = next(dir_ for dir_ in cluster.broker(1).layout.log_dirs if dir_ != holder.parent)
        fail_log_dir(holder.parent)
        cluster.wait_partition("readings", 0, lambda state: state.offline, "no leader")
        with sender_to(cluster) as sender:
            yield HalfBroken(sender, holder.parent, other)


def test_describe_log_dirs_names_the_directory_but_none_of_its_partitions(
    broken: HalfBroken,
) -> None:
    deadline = Deadline.after(SECONDS)
    assert offline_dirs(broken.sender, 1, deadline) == (str(broken.failed),)
    found = read_log_dirs(broken.sender, 1, [FAILED, OTHER], deadline)
    assert {one: held.path for one, held in found.items()} == {OTHER: str(broken.other)}


def test_its_replicas_are_answered_with_a_storage_error(broken: HalfBroken) -> None:
    deadline = Deadline.after(SECONDS)
    end = list_offsets(broken.sender, 1, [FAILED], LATEST, deadline)[FAILED]
    assert isinstance(end, OffsetError)
    assert end.code == KAFKA_STORAGE_ERROR
    epochs = read_epoch_ends(broken.sender, 1, {FAILED: 0}, deadline)[FAILED]
    assert epochs == Unknown("log directory offline on b1")
