"""Every partition with leader, epoch, assignment, ISR and ELR, from all pages of the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from services.errors import UnsupportedByCluster
from services.kafka.wire.broker_errors import UNKNOWN_TOPIC_OR_PARTITION, cluster_error
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.sender import ANY_BROKER, Sender
from services.model import PartitionState, TopicPartition, Unknown

PAGE_PARTITIONS = 2000
"""What a broker serves in one answer by default (max.request.partition.size.limit)."""

NO_ELR = Unknown("this cluster does not record eligible leader replicas (before Kafka 4.0)")
NO_ELR_API = Unknown("this cluster has no DescribeTopicPartitions (before Kafka 3.8)")


def read_partitions(
    sender: Sender,
    deadline: Deadline,
    topics: Sequence[str] = (),
    only: Collection[TopicPartition] = (),
) -> tuple[PartitionState, ...]:
    """Every partition of *topics*, or of all topics.

    Where *only* some of them matter, those before the first and after the last need not be
    read: a few of a topic with thousands cost no more than of a small one. Topics that do not
    exist are absent from the answer.

    Raises:
        Unreachable: the broker stopped answering before the last page.
        NotAuthorized: a named topic may not be described.
    """
    try:
        return tuple(_pages(sender, deadline, topics, only))
    except UnsupportedByCluster:
        return tuple(_from_metadata(sender, deadline, topics))


def _pages(
    sender: Sender, deadline: Deadline, topics: Sequence[str], only: Collection[TopicPartition]
) -> Iterator[PartitionState]:
    from kafka.protocol.admin import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )

    begin, last = min(only, default=None), max(only, default=None)
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[
                DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(topics)
            ],
            response_partition_limit=_room(begin, last),
            cursor=None
            if begin is None
            else DescribeTopicPartitionsRequest.Cursor(
                topic_name=begin.topic, partition_index=begin.partition
            ),
        )
        answer = sender.call(ANY_BROKER, request, DescribeTopicPartitionsResponse, deadline)
        for topic in answer.topics:
            yield from _topic(topic)
        if answer.next_cursor is None:
            return
        begin = TopicPartition(answer.next_cursor.topic_name, answer.next_cursor.partition_index)
        if last is not None and begin > last:
            return


def _room(begin: TopicPartition | None, last: TopicPartition | None) -> int:
    """How many partitions an answer may hold: no more than matter, where that is known."""
    if begin is None or last is None or begin.topic != last.topic:
        return PAGE_PARTITIONS
    return min(PAGE_PARTITIONS, last.partition - begin.partition + 1)


def _topic(topic: Any) -> Iterator[PartitionState]:
    if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return
    if topic.error_code:
        raise cluster_error(
            topic.error_code, f"describing topic {topic.name}", f"DESCRIBE on topic {topic.name}"
        )
    for one in topic.partitions:
        yield PartitionState(
            partition=TopicPartition(topic.name, one.partition_index),
            topic_id=topic.topic_id,
            leader=one.leader_id if one.leader_id >= 0 else None,
            leader_epoch=one.leader_epoch,
            assignment=tuple(one.replica_nodes),
            isr=tuple(one.isr_nodes),
            elr=_ids(one.eligible_leader_replicas),
            last_known_elr=_ids(one.last_known_elr),
            offline_replicas=tuple(one.offline_replicas),
        )


def _ids(replicas: list[int] | None) -> tuple[int, ...] | Unknown:
    return NO_ELR if replicas is None else tuple(replicas)


def _from_metadata(
    sender: Sender, deadline: Deadline, topics: Sequence[str]
) -> Iterator[PartitionState]:
    """Before Kafka 3.8: the same from Metadata, without ELR."""
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted or None, allow_auto_topic_creation=False)
    answer = sender.call(ANY_BROKER, request, MetadataResponse, deadline)
    for topic in answer.topics:
        if topic.error_code:
            continue
        for one in topic.partitions:
            yield PartitionState(
                partition=TopicPartition(topic.name, one.partition_index),
                topic_id=topic.topic_id,
                leader=one.leader_id if one.leader_id >= 0 else None,
                leader_epoch=one.leader_epoch,
                assignment=tuple(one.replica_nodes),
                isr=tuple(one.isr_nodes),
                elr=NO_ELR_API,
                last_known_elr=NO_ELR_API,
                offline_replicas=tuple(one.offline_replicas),
            )
