"""How markers get into many partitions: by one request for each broker that leads any (H14)."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest

from breakglass.services.checkpoint.kafka.topics import KafkaTopics, WantedCheckpoint
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.session import Power, ReadAccess
from tests.lab.checkpoint.branch import SECONDS
from tests.lab.conftest import FreshCluster

PARTITIONS = 100


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, str]]:
    """How many Produce requests each broker has got for each topic."""
    from kafka.protocol.producer import ProduceRequest

    found: Counter[tuple[int, str]] = Counter()
    call = Sender.call

    def counted(sender: Sender, broker: int, request: Any, *more: Any, **named: Any) -> Any:
        if isinstance(request, ProduceRequest):
            found.update((broker, one.name) for one in request.topic_data)
        return call(sender, broker, request, *more, **named)

    monkeypatch.setattr(Sender, "call", counted)
    return found


def started(cluster: Cluster, brokers: list[int]) -> tuple[str, int]:
    """A topic whose partitions these *brokers* lead, and in how many a checkpoint has started."""
    topic = f"markers-{uuid.uuid4().hex[:8]}"
    create_topic(cluster, topic, [[brokers[number % len(brokers)]] for number in range(PARTITIONS)])
    options = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    access = ReadAccess(connection_settings(options))
    with access.reading() as client:
        cluster_id = client.describe(Deadline.after(SECONDS)).cluster_id
        with Power(access).markers(cluster_id) as markers:
            wanted = WantedCheckpoint(Level.COORDINATED, (topic,), {}, f"control-{topic}")
            topics = KafkaTopics(client, markers, wanted)
            return topic, len(topics.start(1, topics.scope().partitions))


def test_h14_the_markers_of_100_partitions_are_one_request(
    whole_broker: Cluster, written: Counter[tuple[int, str]]
) -> None:
    topic, answers = started(whole_broker, [1])
    assert answers == PARTITIONS
    assert written[1, topic] == 1


def test_h14_of_several_brokers_each_gets_one_request(
    fresh_cluster: FreshCluster, written: Counter[tuple[int, str]]
) -> None:
    topic, answers = started(fresh_cluster(), [1, 2, 3])
    assert answers == PARTITIONS
    assert [written[number, topic] for number in (1, 2, 3)] == [1, 1, 1]
