"""Where topics end now: the leaders are asked, what nobody tells has its reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from breakglass.services.backup_watch.live_ends import read_ends
from breakglass.services.kafka.replicas.leader_ends import NO_LEADER
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID, TOPIC_ID

PATIENCE = 10.0
LED, OFFLINE, HUNG, OTHER = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("orders", 2),
    TopicPartition("clicks", 0),
)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """orders-0 led by b1, orders-1 offline, orders-2 led by b2 that lost it; clicks beside."""
    with FakeCluster(2) as cluster:
        for one in (LED, OFFLINE, HUNG, OTHER):
            cluster.story.offline(one, (1, 2))
        for one, leader in ((LED, 1), (HUNG, 2), (OTHER, 1)):
            led = replace(cluster.story.states[one], leader=leader)
            cluster.story.states[one] = led
        cluster.hold(1, LED, (0, 40)).high_watermark = 30
        yield cluster


def test_the_ends_of_the_named_topics_are_told(cluster: FakeCluster) -> None:
    with closing(cluster.client()) as client:
        told = read_ends(client, {"orders", "gone"}, Deadline.after(PATIENCE))

    assert (told.cluster_id, told.topic_ids) == (CLUSTER_ID, {"orders": TOPIC_ID})
    assert told.ends[LED] == 30
    assert told.ends[OFFLINE] == NO_LEADER
    assert isinstance(told.ends[HUNG], Unknown)
    assert OTHER not in told.ends
