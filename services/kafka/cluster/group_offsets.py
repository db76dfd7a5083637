"""Offsets that consumer groups have committed: lower bounds of what was there (R11, R19)."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.broker_errors import AUTHORIZATION_CODES, denied, unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition, Unknown

GROUP_SECONDS = 5.0
"""Group offsets are a bonus: they never hold up the rest for longer."""

LANE = "groups"
"""The offsets of many groups may take a coordinator long; its replicas are told meanwhile."""

GroupOffsets = dict[TopicPartition, dict[str, int]]
"""Committed offset by partition and group."""


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """What a coordinator told of its groups."""

    offsets: GroupOffsets | Unknown
    hidden: tuple[str, ...] = ()
    """Groups that this user may not describe: what they committed is not in *offsets*."""


def read_group_offsets(
    sender: Sender,
    coordinator: int,
    wanted: Container[TopicPartition],
    deadline: Deadline,
) -> GroupOffsets | Unknown:
    """What the groups coordinated by broker *coordinator* committed on *wanted* partitions."""
    return read_committed(sender, coordinator, wanted, deadline).offsets


def read_committed(
    sender: Sender,
    coordinator: int,
    wanted: Container[TopicPartition],
    deadline: Deadline,
) -> CommittedOffsets:
    """The same, with the names of groups that this user may not describe."""
    limit = deadline.sooner(GROUP_SECONDS)
    try:
        groups = _groups(sender, coordinator, limit)
        return (
            _offsets(sender, coordinator, groups, wanted, limit) if groups else CommittedOffsets({})
        )
    except BreakglassError as error:
        return CommittedOffsets(unread(error))


def _groups(sender: Sender, coordinator: int, deadline: Deadline) -> list[str]:
    from breakglass.services.kafka.wire.messages.reading import (
        ListGroupsRequest,
        ListGroupsResponse,
    )

    request = ListGroupsRequest()
    answer = sender.call(coordinator, request, ListGroupsResponse, deadline, lane=LANE)
    return [group.group_id for group in answer.groups]


def _offsets(
    sender: Sender,
    coordinator: int,
    groups: Iterable[str],
    wanted: Container[TopicPartition],
    deadline: Deadline,
) -> CommittedOffsets:
    from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

    group_class = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(
        groups=[group_class(group_id=name, topics=None, member_epoch=-1) for name in groups],
        require_stable=False,
    )
    answer = sender.call(
        coordinator, request, OffsetFetchResponse, deadline, lane=LANE, max_version=9
    )
    found: GroupOffsets = {}
    for group in answer.groups:
        for partition, offset in _offsets_of(group):
            if partition in wanted:
                found.setdefault(partition, {})[group.group_id] = offset
    hidden = sorted(one.group_id for one in answer.groups if one.error_code in AUTHORIZATION_CODES)
    if hidden and not found:
        return CommittedOffsets(denied(describing(hidden[0])), tuple(hidden))
    return CommittedOffsets(found, tuple(hidden))


def describing(group: str) -> str:
    """The ACL that shows what *group* committed."""
    return f"DESCRIBE on group {group}"


def _offsets_of(group: Any) -> Iterable[tuple[TopicPartition, int]]:
    if group.error_code:
        return
    for topic in group.topics:
        for one in topic.partitions:
            if one.error_code == 0 and one.committed_offset >= 0:
                yield TopicPartition(topic.name, one.partition_index), one.committed_offset
