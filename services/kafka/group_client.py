"""The client that moves or deletes the committed offsets of a consumer group.

The group must have no live members; otherwise its coordinator refuses
(GroupCoordinator.validateOffsetCommit with generation -1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from breakglass.services.kafka.wire.broker_errors import (
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.grouping import by_topic
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition

NO_GENERATION = -1
COMMIT_VERSION = 9
"""The last version that names topics instead of their ids."""


class GroupClient:
    """Commits offsets for groups without members; constructed only in armed sessions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def commit(
        self,
        coordinator: int,
        group: str,
        offsets: Mapping[TopicPartition, int],
        deadline: Deadline,
    ) -> dict[TopicPartition, str]:
        """Commit *offsets* for *group*; an error in words for each partition, "" for done.

        Raises:
            Unreachable: the coordinator could not be connected to; nothing was sent.
            OutcomeUnknown: no answer; the offsets may or may not have been committed.
        """
        from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=NO_GENERATION,
            member_id="",
            topics=by_topic(offsets, lambda name, held: _topic(name, held, offsets)),
        )
        answer = self._sender.change(
            coordinator,
            request,
            OffsetCommitResponse,
            deadline,
            f"committing for group {group}",
            "run `breakglass after groups list` to see where it stands",
            max_version=COMMIT_VERSION,
        )
        errors = {
            TopicPartition(topic.name, partition.partition_index): _words(
                partition.error_code, group, topic.name
            )
            for topic in answer.topics
            for partition in topic.partitions
        }
        return {offset: errors.get(offset, "left out of the answer") for offset in offsets}

    def remove(
        self, coordinator: int, group: str, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, str]:
        """Delete the offsets of *group* on *partitions*; an error in words for each, "" for done.

        Raises:
            Unreachable, OutcomeUnknown: as `commit`.
        """
        from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

        topic_class = OffsetDeleteRequest.OffsetDeleteRequestTopic
        numbered = topic_class.OffsetDeleteRequestPartition
        request = OffsetDeleteRequest(
            group_id=group,
            topics=by_topic(
                partitions,
                lambda name, held: topic_class(
                    name=name,
                    partitions=[
                        numbered(partition_index=partition.partition) for partition in held
                    ],
                ),
            ),
        )
        answer = self._sender.change(
            coordinator,
            request,
            OffsetDeleteResponse,
            deadline,
            f"removing offsets of group {group}",
            "look where it stands, then try again",
        )
        whole = _words(answer.error_code, group, "") if answer.error_code else ""
        errors = {
            TopicPartition(topic.name, partition.partition_index): _words(
                partition.error_code, group, topic.name
            )
            for topic in answer.topics
            for partition in topic.partitions
        }
        return {
            partition: whole or errors.get(partition, "left out of the answer")
            for partition in partitions
        }


def _topic(name: str, held: list[TopicPartition], offsets: Mapping[TopicPartition, int]) -> Any:
    from kafka.protocol.consumer import OffsetCommitRequest

    topic_class = OffsetCommitRequest.OffsetCommitRequestTopic
    return topic_class(
        name=name,
        partitions=[
            topic_class.OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offsets[partition],
                committed_metadata="",
            )
            for partition in held
        ],
    )


def _words(code: int, group: str, topic: str) -> str:
    if code == GROUP_AUTHORIZATION_FAILED:
        return f"not allowed: needs READ on group {group}"
    if code == TOPIC_AUTHORIZATION_FAILED:
        return f"not allowed: needs READ on topic {topic}"
    return describe_error(code) if code else ""
