"""Reads consumer groups from their coordinators: committed offsets, and which have members.

A committed offset proves that the log once reached it (R11, R19). Only a group without live members
accepts offsets from other clients. If a partition of `__consumer_offsets` has no leader, no broker
lists its groups, and none says that they are missing (R17).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, NotAuthorized, TimedOut
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    cluster_error,
    denied,
    describe_error,
    only,
    retriable,
    unread,
)
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicPartition, Unknown

LANE = "groups"
"""A connection of its own: reading many groups may take long, and must not delay replicas."""

GroupOffsets = dict[TopicPartition, dict[str, int]]
"""Committed offset by partition and group."""


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The committed offsets of a coordinator's groups."""

    offsets: GroupOffsets | Unknown
    hidden: tuple[str, ...] = ()
    """Groups that this user may not describe: *offsets* lacks their committed offsets."""
    unready: str = ""
    """Why *offsets* may lack groups, such as a coordinator that still loads them; "": it has all.
    """
    epochs: GroupOffsets = field(default_factory=dict)
    """The leader epoch of the record before each of them, where the consumer gave one."""


def read_committed(
    sender: Sender, coordinator: int, wanted: Container[TopicPartition], deadline: Deadline
) -> CommittedOffsets:
    """What the groups coordinated by broker *coordinator* committed on *wanted* partitions."""
    limit = deadline.sooner(patience.GROUPS)
    try:
        from breakglass.services.kafka.wire.messages.reading import (
            ListGroupsRequest,
            ListGroupsResponse,
        )

        request = ListGroupsRequest()
        answer = sender.call(coordinator, request, ListGroupsResponse, limit, lane=LANE)
        groups = [group.group_id for group in answer.groups]
        unready = _unready(answer.error_code)
        if not groups:
            return CommittedOffsets({}, unready=unready)
        found = _offsets(sender, coordinator, groups, wanted, limit)
        return replace(found, unready=unready or found.unready)
    except BreakglassError as error:
        return CommittedOffsets(unread(error))


def read_offsets_of(
    sender: Sender,
    coordinator: int,
    groups: Collection[str],
    wanted: Container[TopicPartition],
    deadline: Deadline,
) -> GroupOffsets:
    """What *groups* have committed on *wanted* partitions.

    A broker that was just started, or just elected, lists no group at first, and no error if it
    does not know yet that it coordinates any. It refuses to answer for a group that is named.

    Raises:
        NotAuthorized: DESCRIBE on a group is missing.
        TimedOut: *coordinator* does not coordinate a group, or still loads it.
        Unreachable: it does not answer.
    """
    found = _offsets(sender, coordinator, groups, wanted, deadline)
    if found.hidden:
        needs = describing(found.hidden[0])
        raise NotAuthorized(f"reading groups is not allowed: grant {needs} to this user", needs)
    if found.unready:
        raise groups_unread(coordinator, found.unready)
    assert not isinstance(found.offsets, Unknown)
    return found.offsets


def groups_unread(coordinator: int, why: str) -> TimedOut:
    """The error for groups of a coordinator that does not answer for them now."""
    return TimedOut(f"groups of b{coordinator} cannot be read ({why}): try again", why)


def _unready(code: int) -> str:
    """The name of an error that passes; "" for success, and for another error."""
    return describe_error(code) if code and retriable(code) else ""


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
    epochs: GroupOffsets = {}
    for group in answer.groups:
        for partition, offset, epoch in _offsets_of(group):
            if partition in wanted:
                found.setdefault(partition, {})[group.group_id] = offset
                if epoch >= 0:
                    epochs.setdefault(partition, {})[group.group_id] = epoch
    hidden = sorted(
        group.group_id for group in answer.groups if group.error_code in AUTHORIZATION_CODES
    )
    if hidden and not found:
        return CommittedOffsets(denied(describing(hidden[0])), tuple(hidden))
    unready = [why for group in answer.groups if (why := _unready(group.error_code))]
    return CommittedOffsets(found, tuple(hidden), next(iter(unready), ""), epochs)


def describing(group: str) -> str:
    """The ACL that is needed to read the committed offsets of *group*."""
    return f"DESCRIBE on group {group}"


def _offsets_of(group: Any) -> Iterable[tuple[TopicPartition, int, int]]:
    if group.error_code:
        return
    for topic in group.topics:
        for partition in topic.partitions:
            if partition.error_code == 0 and partition.committed_offset >= 0:
                yield (
                    TopicPartition(topic.name, partition.partition_index),
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                )


GROUP, TRANSACTION = 0, 1
"""CoordinatorType (FindCoordinatorRequest.java)."""
_KINDS = {GROUP: "group", TRANSACTION: "transactional id"}


def find_coordinator(sender: Sender, key: str, deadline: Deadline, kind: int = GROUP) -> int:
    """The broker that coordinates *key*, which is a group unless *kind* says otherwise.

    Raises:
        NotAuthorized: DESCRIBE on *key* is missing.
        Unreachable: no coordinator was found before *deadline*.
    """
    return until(deadline, lambda: _ask(sender, key, deadline, kind))


def _ask(sender: Sender, key: str, deadline: Deadline, kind: int) -> int:
    from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

    request = FindCoordinatorRequest(key_type=kind, key=key, coordinator_keys=[key])
    answer = sender.call(ANY_BROKER, request, FindCoordinatorResponse, deadline)
    told = answer.coordinators[0] if answer.coordinators else answer
    if told.error_code and retriable(told.error_code):
        why = describe_error(told.error_code)
        raise TimedOut(
            f"{_KINDS[kind]} {key} has no coordinator ({why}): try again", "no coordinator"
        )
    if told.error_code:
        named = f"{_KINDS[kind]} {key}"
        raise cluster_error(told.error_code, f"finding {named}", f"DESCRIBE on {named}")
    return int(told.node_id)


NAMED_VERSION = 9
"""The last version that names topics instead of their ids."""
NONE = -1


def committed_offset(
    sender: Sender, group: str, partition: TopicPartition, deadline: Deadline
) -> int | None:
    """The committed offset of *group*, whatever transaction is pending; None if it has none.

    Raises:
        NotAuthorized: DESCRIBE on the group is missing.
        Unreachable: the coordinator does not answer before *deadline*, or is not ready.
    """
    return until(deadline, lambda: _group_offset_ask(sender, group, partition, deadline))


def _group_offset_ask(
    sender: Sender, group: str, partition: TopicPartition, deadline: Deadline
) -> int | None:
    from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

    coordinator = find_coordinator(sender, group, deadline)
    # Up to version 7 a request has one group, from version 8 on a list of groups.
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup
    number = [partition.partition]
    alone = OffsetFetchRequest.OffsetFetchRequestTopic(
        name=partition.topic, partition_indexes=number
    )
    among = wanted.OffsetFetchRequestTopics(name=partition.topic, partition_indexes=number)
    answer = sender.call(
        coordinator,
        OffsetFetchRequest(
            group_id=group,
            topics=[alone],
            groups=[wanted(group_id=group, topics=[among], member_id=None, member_epoch=-1)],
            require_stable=False,
        ),
        OffsetFetchResponse,
        deadline,
        max_version=NAMED_VERSION,
    )
    told = answer.groups[0] if answer.groups else answer
    who = f"b{coordinator}"
    place = only(only(told.topics, who).partitions, who) if told.topics else None
    code = told.error_code or (place.error_code if place else 0)
    if code and retriable(code):
        raise TimedOut(
            f"the coordinator of {group} is not ready ({describe_error(code)}): try again"
        )
    if code:
        raise cluster_error(code, f"reading group {group}", f"READ on group {group}")
    return None if place is None or place.committed_offset == NONE else int(place.committed_offset)


WITHOUT_MEMBERS = frozenset({"Empty", "Dead", ""})
"""States without members in every group protocol (GroupState.java); before 2.6 brokers send ""."""


def live_groups(sender: Sender, coordinator: int, deadline: Deadline) -> frozenset[str]:
    """The groups of broker *coordinator* that have members, or that members are joining.

    Raises:
        NotAuthorized, ClusterError: the broker refused.
        Unreachable: the broker did not answer, or still loads its groups at *deadline*.
    """
    return until(deadline, lambda: _live_groups(sender, coordinator, deadline))


def _live_groups(sender: Sender, coordinator: int, deadline: Deadline) -> frozenset[str]:
    from breakglass.services.kafka.wire.messages.reading import (
        ListGroupsRequest,
        ListGroupsResponse,
    )

    answer = sender.call(coordinator, ListGroupsRequest(), ListGroupsResponse, deadline)
    if unready := _unready(answer.error_code):
        raise groups_unread(coordinator, unready)
    if answer.error_code:
        raise cluster_error(answer.error_code, "listing groups", "DESCRIBE on the groups")
    return frozenset(
        group.group_id
        for group in answer.groups
        if (getattr(group, "group_state", "") or "") not in WITHOUT_MEMBERS
    )


OFFSETS_TOPIC = "__consumer_offsets"


def offline_offsets(client: ReadClient, deadline: Deadline) -> tuple[TopicPartition, ...]:
    """The partitions of `__consumer_offsets` without leader.

    None for a user that may not describe the topic: coordinators answer such a user, too.

    Raises Unreachable: no broker answers.
    """
    try:
        states = client.newest_partitions((OFFSETS_TOPIC,), deadline)
    except NotAuthorized:
        return ()
    return tuple(state.partition for state in states if state.offline)


NAMED = 3
"""How many offline partitions a sentence names."""


def groups_unknown(offline: Sequence[TopicPartition]) -> str:
    """Which groups nobody can read: ``groups of __consumer_offsets-3 are not known: ...``."""
    if len(offline) == 1:
        return f"groups of {offline[0]} are not known: it is offline"
    named = ", ".join(map(str, offline[:NAMED])) + (", ..." if len(offline) > NAMED else "")
    return (
        f"groups of {len(offline):,} partitions of {OFFSETS_TOPIC} are not known: they are "
        f"offline ({named})"
    )
