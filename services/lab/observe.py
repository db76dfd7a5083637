"""What the lab's brokers say of the cluster: who is fenced, and the state of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from breakglass.services.errors import LabError
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import PartitionState, TopicPartition, Unknown

NULL_ELR = Unknown("this Kafka has no eligible leader replicas")


def read_fenced(node: Conversation) -> dict[int, bool]:
    """The registered brokers, each with whether it is fenced.

    Before Kafka 4.0 fenced brokers are left out of the answer altogether.
    """
    from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

    request = DescribeClusterRequest(include_fenced_brokers=True)
    answer = node.ask(request, DescribeClusterResponse)
    return {broker.broker_id: bool(broker.is_fenced) for broker in answer.brokers}


def read_partitions(node: Conversation, topics: Sequence[str]) -> tuple[PartitionState, ...]:
    """Every partition of *topics*, as *node* has it; of all topics when none is named.

    Raises:
        LabError: a topic does not exist there.
    """
    from kafka.protocol.admin import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )

    wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=topic) for topic in sorted(topics)]
    found: list[PartitionState] = []
    cursor: Any = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=wanted, cursor=cursor)
        answer = node.ask(request, DescribeTopicPartitionsResponse)
        found.extend(state for topic in answer.topics for state in _states(topic))
        if answer.next_cursor is None:
            return tuple(found)
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )


def _states(topic: Any) -> list[PartitionState]:
    if topic.error_code:
        raise LabError(
            f"Topic {topic.name} cannot be described (error {topic.error_code}): create it first."
        )
    return [_state(topic.name, topic.topic_id, partition) for partition in topic.partitions]


def _state(topic: str, topic_id: UUID, answer: Any) -> PartitionState:
    return PartitionState(
        partition=TopicPartition(topic, answer.partition_index),
        topic_id=topic_id,
        leader=answer.leader_id if answer.leader_id >= 0 else None,
        leader_epoch=answer.leader_epoch,
        assignment=tuple(answer.replica_nodes),
        isr=tuple(answer.isr_nodes),
        elr=_elr(answer.eligible_leader_replicas),
        last_known_elr=_elr(answer.last_known_elr),
        offline_replicas=tuple(answer.offline_replicas),
    )


def _elr(ids: Sequence[int] | None) -> tuple[int, ...] | Unknown:
    return NULL_ELR if ids is None else tuple(ids)
