"""The proxy's own requests to the real broker, by which it serves what that broker lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self
from uuid import UUID

from breakglass.services.errors import LabError
from breakglass.services.lab.wire import Conversation, read_partitions
from breakglass.services.model import PartitionState, TopicPartition

DEBUGGING_REPLICA = -2
FUTURE_REPLICA = -3
LATEST = -1
PAST_EVERY_LOG = 2**63 - 1
NO_SESSION = -1
FETCH_BY_NAME = 12
"""The last version of Fetch that names topics instead of their ids."""
OFFSET_OUT_OF_RANGE = 1
UNCLEAN = 1

ByPartition = dict[TopicPartition, Any]


class Translator(Conversation):
    """Questions and changes in the words of a stock broker."""

    def __enter__(self) -> Self:
        return self

    def topic_names(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        """The names of the topics that exist, by id."""
        from kafka.protocol.metadata import MetadataRequest, MetadataResponse

        wanted = [MetadataRequest.MetadataRequestTopic(topic_id=id_, name=None) for id_ in set(ids)]
        if not wanted:
            return {}
        answer = self.ask(MetadataRequest(topics=wanted), MetadataResponse)
        return {topic.topic_id: topic.name for topic in answer.topics if not topic.error_code}

    def log_ends(self, partitions: Iterable[TopicPartition]) -> ByPartition:
        """ListOffsets' entry for the broker's own replica: offset, leader_epoch, error_code."""
        from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

        topic_class = ListOffsetsRequest.ListOffsetsTopic
        topics = [
            topic_class(
                name=topic,
                partitions=[
                    topic_class.ListOffsetsPartition(
                        partition_index=number, current_leader_epoch=-1, timestamp=LATEST
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in _by_topic(partitions).items()
        ]
        request = ListOffsetsRequest(
            replica_id=DEBUGGING_REPLICA, isolation_level=0, topics=topics, timeout_ms=0
        )
        answer = self.ask(request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }

    def holds_epoch(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, bool]:
        """Whether the latest epoch of the broker's own replica is at least the given one."""
        from kafka.protocol.consumer import FetchRequest, FetchResponse

        topic_class = FetchRequest.FetchTopic
        topics = [
            topic_class(
                topic=topic,
                partitions=[
                    topic_class.FetchPartition(
                        partition=number,
                        fetch_offset=PAST_EVERY_LOG,
                        last_fetched_epoch=epochs[TopicPartition(topic, number)],
                        partition_max_bytes=1,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in _by_topic(epochs).items()
        ]
        request = FetchRequest(
            replica_id=FUTURE_REPLICA,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            session_epoch=NO_SESSION,
            topics=topics,
        )
        answer = self._exchange(request, FetchResponse, FETCH_BY_NAME)
        return {
            TopicPartition(topic.topic, partition.partition_index): (
                partition.error_code != OFFSET_OUT_OF_RANGE
            )
            for topic in answer.responses
            for partition in topic.partitions
        }

    def states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The partitions that exist, as the broker knows them."""
        found: dict[TopicPartition, PartitionState] = {}
        for topic in _by_topic(partitions):
            try:
                found.update(
                    {partition.partition: partition for partition in read_partitions(self, [topic])}
                )
            except LabError:
                continue
        return found

    def reassign(
        self, orders: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, int]:
        """Write assignment orders; an error code for each partition."""
        from kafka.protocol.admin import (
            AlterPartitionReassignmentsRequest,
            AlterPartitionReassignmentsResponse,
        )

        topic_class = AlterPartitionReassignmentsRequest.ReassignableTopic
        topics = [
            topic_class(
                name=topic,
                partitions=[
                    topic_class.ReassignablePartition(
                        partition_index=number,
                        replicas=list(orders[TopicPartition(topic, number)]),
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in _by_topic(orders).items()
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=topics)
        answer = self.ask(request, AlterPartitionReassignmentsResponse)
        if answer.error_code:
            return dict.fromkeys(orders, int(answer.error_code))
        return {
            TopicPartition(topic.name, partition.partition_index): int(partition.error_code)
            for topic in answer.responses
            for partition in topic.partitions
        }

    def elect_unclean(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Elect by assignment order; an error code for each partition."""
        from kafka.protocol.admin import ElectLeadersRequest, ElectLeadersResponse

        topics = [
            ElectLeadersRequest.TopicPartitions(topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(partitions).items()
        ]
        request = ElectLeadersRequest(
            election_type=UNCLEAN, topic_partitions=topics, timeout_ms=10_000
        )
        answer = self.ask(request, ElectLeadersResponse)
        return {
            TopicPartition(topic.topic, one.partition_id): int(one.error_code)
            for topic in answer.replica_election_results
            for one in topic.partition_result
        }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics
