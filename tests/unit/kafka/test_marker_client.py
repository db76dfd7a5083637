"""Markers are written to all leaders at once: a leader that hangs costs its own partitions only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from breakglass.services.errors import NotAuthorized
from breakglass.services.kafka.marker_client import MarkerClient, Small
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.broker_errors import TOPIC_AUTHORIZATION_FAILED
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster

PATIENCE = 1.0
HUNG, LED = TopicPartition("orders", 0), TopicPartition("orders", 1)
END = 40


def produced(request: Any, error_code: int = 0) -> Any:
    topic_class = ProduceResponse.TopicProduceResponse
    partition_class = topic_class.PartitionProduceResponse
    return ProduceResponse(
        responses=[
            topic_class(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    partition_class(
                        index=partition.index,
                        error_code=error_code,
                        base_offset=END,
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=None,
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
        throttle_time_ms=0,
    )


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """b1 leads orders-0 and is hung; b2 leads orders-1."""
    with FakeCluster(2) as cluster:
        for partition, leader in ((HUNG, 1), (LED, 2)):
            state = cluster.story.offline(partition, (1, 2))
            cluster.story.states[partition] = replace(state, leader=leader)
        cluster.brokers[1].hung = True
        cluster.brokers[2].serve(ProduceRequest, produced)
        yield cluster


@pytest.fixture
def markers(cluster: FakeCluster) -> Iterator[MarkerClient]:
    with closing(cluster.sender(api_keys.CHECKPOINTS, 2)) as sender:
        yield MarkerClient(sender)


def test_a_hung_leader_takes_no_time_from_the_leaders_after_it(
    cluster: FakeCluster, markers: MarkerClient
) -> None:
    states = [cluster.story.states[partition] for partition in (HUNG, LED)]
    assert markers.write(states, Small(b"marker", b""), Deadline.after(PATIENCE)) == {LED: END}


def test_a_partition_that_refuses_ends_the_write(
    cluster: FakeCluster, markers: MarkerClient
) -> None:
    cluster.brokers[2].serve(
        ProduceRequest, lambda request: produced(request, TOPIC_AUTHORIZATION_FAILED)
    )
    with pytest.raises(NotAuthorized):
        markers.write([cluster.story.states[LED]], Small(b"marker", b""), Deadline.after(PATIENCE))
