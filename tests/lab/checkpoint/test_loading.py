"""Groups whose coordinator is down, or has just started: nobody lists them (H11, R17).

Loading lasts, because there are many commits, which the broker reads one at a time.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from breakglass.services.checkpoint.kafka.evidence import read_evidence
from breakglass.services.checkpoint.kafka.owners import read_named_groups
from breakglass.services.errors import TimedOut
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    CommittedOffsets,
    read_committed,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.acts.move_groups import past_end_now
from tests.kit.clusters import access_to
from tests.kit.commits import commit_offsets
from tests.lab.checkpoint.branch import LOG, soon

TOPIC, GROUP = "orders", "billing"
COORDINATOR, LEADER = 1, 2
PARTITIONS, COMMITS = 50, 400
LAST = COMMITS - 1
SLOW_TO_LOAD = {"offsets.topic.num.partitions": "1", "offsets.load.buffer.size": "1"}
"""A read of the log returns one batch, which is one commit."""
WANTED = {TopicPartition(TOPIC, number): 0 for number in range(PARTITIONS)}


@pytest.fixture(scope="module")
def slow_to_load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Broker 1 coordinates a group whose offsets take a while to load; broker 2 leads its topic."""
    folder = tmp_path_factory.mktemp("loading")
    with Cluster.up(folder, brokers=2, overrides=SLOW_TO_LOAD, tethered=True) as found:
        create_topic(found, TOPIC, [[LEADER]] * PARTITIONS)
        create_topic(found, OFFSETS_TOPIC, [[COORDINATOR]], {"cleanup.policy": "compact"})
        _commit(found)
        yield found


def _commit(cluster: Cluster) -> None:
    def positions(offset: int) -> list[Position]:
        return [Position(TOPIC, number, offset) for number in range(PARTITIONS)]

    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP}
    with closing(Consumer(settings, logger=LOG)) as member:
        commit_offsets(member, positions(0))
        for offset in range(LAST):
            member.commit(offsets=positions(offset), asynchronous=True)
        member.commit(offsets=positions(LAST), asynchronous=False)


@pytest.fixture
def client(slow_to_load: Cluster) -> Iterator[ReadClient]:
    """Reads the cluster, whose broker 1 is down."""
    slow_to_load.broker(COORDINATOR).kill()
    slow_to_load.wait_fenced(COORDINATOR)
    with access_to(slow_to_load).reading() as found:
        found.describe(soon())
        yield found
    if not slow_to_load.broker(COORDINATOR).running:
        slow_to_load.broker(COORDINATOR).start()
    slow_to_load.wait_unfenced(COORDINATOR)


def first_answer(client: ReadClient) -> CommittedOffsets:
    """What the coordinator says of its groups as soon as it says anything."""
    deadline = soon()
    while not deadline.passed:
        found = read_committed(client.sender, COORDINATOR, WANTED, deadline)
        if not isinstance(found.offsets, Unknown):
            return found
    raise AssertionError("the broker did not answer")


def test_h11_offsets_of_a_group_that_is_not_loaded_yet_are_waited_for(
    slow_to_load: Cluster, client: ReadClient
) -> None:
    slow_to_load.broker(COORDINATOR).start()
    assert first_answer(client).offsets == {}
    assert read_named_groups(client, (GROUP,), WANTED, soon()) == {
        GROUP: dict.fromkeys(WANTED, LAST)
    }


def test_r17_groups_that_nobody_coordinates_are_named_as_not_known(client: ReadClient) -> None:
    found = past_end_now(client)
    assert (found.moves, found.standing.offline) == ((), (TopicPartition(OFFSETS_TOPIC, 0),))


def test_h10_what_groups_are_on_a_topic_is_not_said_while_some_have_no_coordinator(
    client: ReadClient,
) -> None:
    with pytest.raises(TimedOut, match="__consumer_offsets-0"):
        read_evidence(client, (TOPIC,), "no-control", soon())
