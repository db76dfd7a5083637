"""What the fake brokers of one cluster have in common: its metadata, and answers made of it."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
    ListGroupsResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import OffsetFetchResponse

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.kafka.wire.answers import by_topic
from breakglass.services.model import PartitionState, Reassignment, TopicPartition

CLUSTER_ID = "fake-cluster"
TOPIC_ID = UUID("11111111-2222-3333-4444-555555555555")
CONTROLLER = 101
COORDINATOR = 1
"""The broker that coordinates every group."""
UNKNOWN_PARTITION = 3
PLAIN_SETTINGS = {
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "cleanup.policy": "delete",
}


@dataclass
class Story:
    """What the metadata says; change it, and every broker tells the change."""

    addresses: dict[int, Endpoint] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """By topic, what differs from `PLAIN_SETTINGS`."""
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    cluster_id: str = CLUSTER_ID
    quorum_leader: int = CONTROLLER
    groups: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    group_epoch: int = -1
    """The leader epoch that they committed with each offset; -1: none."""
    """Committed offsets."""
    page: int | None = None
    """Partitions in one page of DescribeTopicPartitions; None: all."""

    def offline(
        self,
        partition: TopicPartition,
        assignment: tuple[int, ...] = (3, 1, 2),
        *,
        leader_epoch: int = 5,
        isr: tuple[int, ...] = (),
        elr: tuple[int, ...] = (),
        last: tuple[int, ...] = (),
    ) -> PartitionState:
        """Add a partition without leader."""
        state = PartitionState(
            partition, TOPIC_ID, None, leader_epoch, assignment, isr, elr, last, ()
        )
        self.states[partition] = state
        return state


def cluster(story: Story, _: Any) -> Any:
    """DescribeCluster."""
    return DescribeClusterResponse(
        cluster_id=story.cluster_id,
        controller_id=1,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=one, host=address.host, port=address.port, is_fenced=one in story.fenced
            )
            for one, address in story.addresses.items()
        ],
    )


def topic_partitions(story: Story, request: Any) -> Any:
    """DescribeTopicPartitions, page by page."""
    named = {topic.name for topic in request.topics}
    wanted = [state for state in sorted(story.states) if not named or state.topic in named]
    missing = named - {partition.topic for partition in wanted}
    if request.cursor is not None:
        begin = TopicPartition(request.cursor.topic_name, request.cursor.partition_index)
        wanted = [partition for partition in wanted if partition >= begin]
    most = request.response_partition_limit
    page = wanted[: most if story.page is None else min(most, story.page)]
    answer_class = DescribeTopicPartitionsResponse
    topic_class = answer_class.DescribeTopicPartitionsResponseTopic
    unknown = [
        topic_class(error_code=UNKNOWN_PARTITION, name=one, partitions=[]) for one in missing
    ]
    after = wanted[len(page) :]
    return answer_class(
        topics=[*by_topic(page, lambda name, held: _topic(story, name, held)), *unknown],
        next_cursor=(
            answer_class.Cursor(topic_name=after[0].topic, partition_index=after[0].partition)
            if after
            else None
        ),
    )


def _topic(story: Story, name: str, held: list[TopicPartition]) -> Any:
    topic_class = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    states = [story.states[partition] for partition in held]
    return topic_class(
        name=name,
        topic_id=states[0].topic_id,
        partitions=[
            topic_class.DescribeTopicPartitionsResponsePartition(
                partition_index=state.partition.partition,
                leader_id=-1 if state.leader is None else state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.assignment),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=_ids(state.elr),
                last_known_elr=_ids(state.last_known_elr),
                offline_replicas=list(state.offline_replicas),
            )
            for state in states
        ],
    )


def _ids(ids: Any) -> list[int] | None:
    return list(ids) if isinstance(ids, tuple) else None


def quorum(story: Story, _: Any) -> Any:
    """DescribeQuorum: one voter."""
    topic_class = DescribeQuorumResponse.TopicData
    voter = topic_class.PartitionData.ReplicaState(replica_id=CONTROLLER, log_end_offset=9)
    partition = topic_class.PartitionData(
        partition_index=0,
        leader_id=story.quorum_leader,
        leader_epoch=1,
        high_watermark=9,
        current_voters=[voter],
        observers=[],
    )
    topic = topic_class(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumResponse(topics=[topic], nodes=[])


def reassignments(story: Story, _: Any) -> Any:
    """ListPartitionReassignments."""
    topic_class = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    moving = story.reassignments

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(
            name=name,
            partitions=[
                topic_class.OngoingPartitionReassignment(
                    partition_index=partition.partition,
                    replicas=[],
                    adding_replicas=list(moving[partition].adding),
                    removing_replicas=list(moving[partition].removing),
                )
                for partition in held
            ],
        )

    return ListPartitionReassignmentsResponse(topics=by_topic(moving, topic))


def configs(story: Story, request: Any) -> Any:
    """DescribeConfigs of topics."""
    result = DescribeConfigsResponse.DescribeConfigsResult

    def settings(topic: str) -> list[Any]:
        values = {**PLAIN_SETTINGS, **story.settings.get(topic, {})}
        entry = result.DescribeConfigsResourceResult
        return [entry(name=name, value=value) for name, value in values.items()]

    return DescribeConfigsResponse(
        results=[
            result(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=settings(resource.resource_name),
            )
            for resource in request.resources
        ]
    )


def groups(story: Story, broker: int) -> Any:
    """ListGroups."""
    names = story.groups if broker == COORDINATOR else {}
    return ListGroupsResponse(
        groups=[ListGroupsResponse.ListedGroup(group_id=name) for name in names]
    )


def committed(story: Story, request: Any) -> Any:
    """OffsetFetch."""
    group_class = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_class = group_class.OffsetFetchResponseTopics

    def group(name: str) -> Any:
        offsets = story.groups[name]

        def topic(topic_name: str, held: list[TopicPartition]) -> Any:
            partition_class = topic_class.OffsetFetchResponsePartitions
            return topic_class(
                name=topic_name,
                partitions=[
                    partition_class(
                        partition_index=partition.partition,
                        committed_offset=offsets[partition],
                        committed_leader_epoch=story.group_epoch,
                    )
                    for partition in held
                ],
            )

        return group_class(group_id=name, topics=by_topic(offsets, topic))

    return OffsetFetchResponse(groups=[group(one.group_id) for one in request.groups])
