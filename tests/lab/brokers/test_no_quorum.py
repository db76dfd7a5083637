"""How brokers answer for a controller that is not there (R20)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.errors import TimedOut
from breakglass.services.kafka.cluster.describe_cluster import describe_quorum
from breakglass.services.kafka.cluster.partitions import UNANSWERED, read_reassignments
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import TopicPartition, Unknown
from tests.lab.asking import unclean_election
from tests.lab.brokers.conftest import SECONDS, sender_to

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
