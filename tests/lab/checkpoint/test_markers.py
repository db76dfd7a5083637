"""How markers get into many partitions: by one request to the broker that leads them (H14)."""

from collections import Counter
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest

from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from tests.lab.checkpoint.taking import Taking

PARTITIONS = 100


def test_h14_the_markers_of_100_partitions_are_one_request(
    whole_broker: Cluster, taking: Taking, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: Counter[str] = Counter()
    call = Sender.call

    def counted(sender: Sender, broker: int, request: Any, *more: Any, **named: Any) -> Any:
        if isinstance(request, ProduceRequest):
            written.update(one.name for one in request.topic_data)
        return call(sender, broker, request, *more, **named)

    monkeypatch.setattr(Sender, "call", counted)
    create_topic(whole_broker, topic, [[1]] * PARTITIONS)
    wanted = taking.wanted(Level.COORDINATED, (topic,))
    with taking.power.markers(taking.cluster_id) as markers:
        topics = KafkaTopics(taking.client, markers, wanted)
        assert len(topics.start(1, topics.scope().partitions)) == PARTITIONS
    assert written[topic] == 1
