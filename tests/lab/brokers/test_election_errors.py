"""What ElectLeaders answers where it elects nobody, and to what a reorder is refused."""

from __future__ import annotations

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.lab.asking import election_code, reassign_code

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
