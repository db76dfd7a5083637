"""Log ends by GetReplicaLogInfo, on clusters that have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from breakglass.services.kafka.replicas.list_offsets import ListedOffset, OffsetError
from breakglass.services.kafka.wire.broker_errors import (
    AUTHORIZATION_CODES,
    KAFKA_STORAGE_ERROR,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.native import MAX_PARTITIONS
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from breakglass.services.kafka.wire.messages.replica_log_info import ReplicaLogInfoMessages

NOT_ALLOWED = "not allowed: needs CLUSTER_ACTION on CLUSTER and DESCRIBE on the topic"


def read_log_infos(
    sender: Sender,
    broker: int,
    messages: ReplicaLogInfoMessages,
    partitions: Mapping[TopicPartition, UUID],
    deadline: Deadline,
) -> dict[TopicPartition, ListedOffset | OffsetError]:
    """The log end and current leader epoch of *broker*'s replicas of *partitions*.

    Asks for at most 1,000 at a time, and again for what an answer leaves out, be it with
    HasMoreData or without.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
    """
    answers: dict[TopicPartition, ListedOffset | OffsetError] = {}
    missing = list(partitions)
    while missing:
        asked = missing[:MAX_PARTITIONS]
        told = _ask(sender, broker, messages, {one: partitions[one] for one in asked}, deadline)
        answers.update(told)
        if not told:
            absent = OffsetError(f"b{broker} leaves this partition out of its answers")
            answers.update(dict.fromkeys(asked, absent))
        missing = [one for one in missing if one not in answers]
    return answers


def _ask(
    sender: Sender,
    broker: int,
    messages: ReplicaLogInfoMessages,
    asked: Mapping[TopicPartition, UUID],
    deadline: Deadline,
) -> dict[TopicPartition, ListedOffset | OffsetError]:
    by_id: dict[UUID, list[int]] = {}
    for one, topic_id in asked.items():
        by_id.setdefault(topic_id, []).append(one.partition)
    names = {topic_id: one.topic for one, topic_id in asked.items()}
    request = messages.request(by_id, broker)
    answer = sender.call(broker, request, messages.response_class, deadline)
    return {
        TopicPartition(names[topic.topic_id], one.partition): _offset(broker, one)
        for topic in answer.topic_partition_log_info_list
        for one in topic.partition_log_info
        if topic.topic_id in names
    }


def _offset(broker: int, answer: Any) -> ListedOffset | OffsetError:
    code = answer.error_code
    if code in AUTHORIZATION_CODES:
        return OffsetError(NOT_ALLOWED, code)
    if code == KAFKA_STORAGE_ERROR:
        return OffsetError(f"log directory offline on b{broker}", code)
    if code:
        return OffsetError(f"b{broker} answers {describe_error(code)}", code)
    return ListedOffset(answer.log_end_offset, -1, _current_epoch(answer))


def _current_epoch(answer: Any) -> int:
    """KIP-1275 calls it PartitionLeaderEpoch, the other forms CurrentLeaderEpoch."""
    fields = answer.fields
    name = "current_leader_epoch" if "current_leader_epoch" in fields else "partition_leader_epoch"
    return int(getattr(answer, name))
