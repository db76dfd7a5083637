"""How far the owners of partitions have come: what a worker that takes over has to know (H13).

In the ZEP the owner copies its own partition when it processes the checkpoint, and its successor
copies anew unless that was committed. Here a worker copies; committed is what the control topic
holds, and processed what is committed beside the groups' offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from breakglass.services.checkpoint.kafka.control import Control
from breakglass.services.checkpoint.kafka.control_log import read_control
from breakglass.services.checkpoint.kafka.log_ends import read_logs
from breakglass.services.checkpoint.kafka.topics import of
from breakglass.services.checkpoint.participant.positions import METADATA, sn_of
from breakglass.services.checkpoint.protocol.values import NO_CHECKPOINT
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import NumberedPartition, TakeDocument
from breakglass.services.errors import ClusterError, TimedOut
from breakglass.services.kafka.cluster.coordinators import find_coordinator
from breakglass.services.kafka.cluster.group_states import live_groups
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.broker_errors import describe_error, retriable
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition

ASK_SECONDS = 30.0
PAUSE_SECONDS = 0.1


def take_over(
    client: ReadClient, store: BackupStore, take: TakeDocument, control_topic: str
) -> tuple[int, ...]:
    """Fail what the worker that is gone left of partitions whose owners are past the checkpoint.

    Returns the numbers of the partitions that have failed by that. The others are copied by
    whoever calls this, beside what the old one left (scenarios 1 to 7 of the ZEP).

    Raises:
        ClusterError, Unreachable: the control topic or a group cannot be read.
    """
    last = come_to(client, take.partitions, tuple(take.groups), control_topic)
    past = {number: id for number, id in last.items() if take.id <= id}
    failed = store.fail_unfinished(take, past)
    return tuple(number for number, ids in sorted(failed.items()) if take.id in ids)


def await_owners(
    client: ReadClient,
    take: TakeDocument,
    read: Mapping[str, Collection[TopicPartition]],
    control_topic: str,
    deadline: Deadline,
    wait: Callable[[float], None],
) -> None:
    """Return when the owners of the partitions that each group has *read* have noted the id.

    A group may have processed all that is in the cut, and not saved its state yet. Groups that
    save nothing and have no members are not waited for, nor those of other consumers.

    Raises:
        ClusterError: one has not before *deadline*.
        Unreachable: the control topic or a group cannot be read.
    """
    while True:
        late = _late(client, take, read, control_topic)
        if not late:
            return
        if deadline.passed:
            group, partitions = next(iter(late.items()))
            raise ClusterError(
                f"not drained in time: group {group} has not come to the checkpoint in "
                f"{partitions[0]} ({len(partitions)} partitions): see that it runs, then take a "
                "checkpoint with a new id"
            )
        wait(PAUSE_SECONDS)


def _late(
    client: ReadClient,
    take: TakeDocument,
    read: Mapping[str, Collection[TopicPartition]],
    control_topic: str,
) -> dict[str, list[TopicPartition]]:
    """The partitions of each group whose owners have not come to the checkpoint."""
    deadline = Deadline.after(ASK_SECONDS)
    topics = sorted({one.topic for one in take.partitions})
    ids = {one.partition: one.topic_id.hex for one in read_logs(client, topics, deadline).states}
    control = read_control(client, control_topic, deadline) or Control()
    saving = {group for (group, _, _), one in control.created.items() if one.state is not None}
    found = {}
    for group, partitions in read.items():
        if group not in saving and not _members(client, group, partitions, deadline):
            continue
        behind = [
            one
            for one in sorted(partitions)
            if max(_created(control, [group], ids[one], one.partition), default=0) < take.id
        ]
        if behind:
            found[group] = behind
    return found


def _members(
    client: ReadClient, group: str, partitions: Collection[TopicPartition], deadline: Deadline
) -> bool:
    """Whether a group of participants is at work."""
    broker = find_coordinator(client.sender, group, deadline)
    if group not in live_groups(client.sender, broker, deadline):
        return False
    return bool(read_ids(client.sender, group, list(partitions), deadline))


def come_to(
    client: ReadClient,
    partitions: Sequence[NumberedPartition],
    groups: Sequence[str],
    control_topic: str,
) -> dict[int, int]:
    """The checkpoint that the owner of each partition has come to last, by its number.

    Raises: as `take_over`.
    """
    deadline = Deadline.after(ASK_SECONDS)
    topics = sorted({one.topic for one in partitions})
    logs = read_logs(client, topics, deadline)
    ids = {one.partition: one.topic_id.hex for one in logs.states}
    control = read_control(client, control_topic, deadline) or Control()
    found = {one.number: NO_CHECKPOINT for one in partitions}
    processed = [read_ids(client.sender, one, list(ids), deadline) for one in groups]
    for subject in partitions:
        partition = of(subject)
        created = _created(control, groups, ids[partition], partition.partition)
        beside = (one.get(partition, NO_CHECKPOINT) for one in processed)
        found[subject.number] = max([*created, *beside], default=NO_CHECKPOINT)
    return found


def _created(
    control: Control, groups: Iterable[str], topic_id: str, partition: int
) -> Iterable[int]:
    keys = ((group, topic_id, partition) for group in groups)
    return (control.created[key].id for key in keys if key in control.created)


def read_ids(
    sender: Sender, group: str, partitions: Sequence[TopicPartition], deadline: Deadline
) -> Mapping[TopicPartition, int]:
    """The checkpoints that *group* has committed beside its offsets, where it is of participants.

    Raises:
        TimedOut: its coordinator does not tell.
    """
    return until(deadline, lambda: _ask(sender, group, partitions, deadline))


def _ask(
    sender: Sender, group: str, partitions: Sequence[TopicPartition], deadline: Deadline
) -> Mapping[TopicPartition, int]:
    from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

    broker = find_coordinator(sender, group, deadline)
    group_class = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(
        groups=[group_class(group_id=group, topics=None, member_epoch=-1)], require_stable=False
    )
    answer = sender.call(broker, request, OffsetFetchResponse, deadline, max_version=9)
    (told,) = answer.groups
    if told.error_code:
        raise _unread(group, told.error_code)
    return dict(_ids(told, frozenset(partitions)))


def _ids(told: Any, wanted: frozenset[TopicPartition]) -> Iterable[tuple[TopicPartition, int]]:
    for topic in told.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            ours = (one.metadata or "").startswith(METADATA)
            if partition in wanted and ours and not one.error_code:
                yield partition, sn_of(one.metadata)


def _unread(group: str, code: int) -> Exception:
    message = f"group {group} cannot be read ({describe_error(code)}): try again"
    if retriable(code):
        return TimedOut(message, describe_error(code))
    return ClusterError(message)
