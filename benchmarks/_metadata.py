"""The request by which librdkafka's programs learn of a cluster, answered by generated brokers."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from breakglass.services.model import PartitionState, TopicPartition
from tests.fake_cluster import FakeCluster
from tests.fake_metadata import Story

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
    held = sorted(one for one in story.states if named is None or one.topic in named)
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
            _topic(name, [story.states[one] for one in partitions])
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
                partition_index=one.partition.partition,
                leader_id=-1,
                leader_epoch=one.leader_epoch,
                replica_nodes=list(one.assignment),
                isr_nodes=list(one.isr),
                offline_replicas=list(one.offline_replicas),
            )
            for one in states
        ],
    )
