"""The request by which librdkafka's programs learn of a cluster, answered by generated brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from breakglass.services.model import PartitionState, TopicPartition
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import Story

LEADER_NOT_AVAILABLE = 5
VERSIONS = 0, 8
"""In newer ones librdkafka 2.16 sends bytes after the request's end."""


def serve_metadata(cluster: FakeCluster) -> None:
    """Let every broker of *cluster* answer Metadata."""
    for broker in cluster.brokers.values():
        broker.serve(MetadataRequest, lambda asked: _answer(cluster.story, asked), VERSIONS)


def _answer(story: Story, request: Any) -> Any:
    wanted = request.topics
    named = None if wanted is None else {one.name for one in wanted}
    held = sorted(state for state in story.states if named is None or state.topic in named)
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker, host=address.host, port=address.port
            )
            for broker, address in story.addresses.items()
            if broker not in story.fenced
        ],
        cluster_id=story.cluster_id,
        controller_id=1,
        topics=[
            _topic(name, [story.states[partition] for partition in partitions])
            for name, partitions in groupby(held, _topic_of)
        ],
    )


def _topic_of(partition: TopicPartition) -> str:
    return partition.topic


def _topic(name: str, states: list[PartitionState]) -> Any:
    topic_class = MetadataResponse.MetadataResponseTopic
    partition_class = topic_class.MetadataResponsePartition
    return topic_class(
        name=name,
        topic_id=states[0].topic_id,
        partitions=[
            partition_class(
                error_code=LEADER_NOT_AVAILABLE,
                partition_index=state.partition.partition,
                leader_id=-1,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.assignment),
                isr_nodes=list(state.isr),
                offline_replicas=list(state.offline_replicas),
            )
            for state in states
        ],
    )


def description_of(states: Iterable[PartitionState]) -> Callable[[], Any]:
    """Decodes, by kafka-python, the answer that has the metadata of *states*."""
    held = sorted(states, key=lambda state: (state.partition.topic, state.partition.partition))
    answer = MetadataResponse(
        version=VERSIONS[1],
        brokers=[],
        cluster_id="",
        controller_id=1,
        topics=[
            _topic(name, list(together))
            for name, together in groupby(held, lambda state: state.partition.topic)
        ],
    )
    body = answer.encode()
    return lambda: MetadataResponse.decode(body, version=VERSIONS[1])
