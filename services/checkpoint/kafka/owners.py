"""What the owners of partitions have saved, and which checkpoint each has reached (H13).

An owner records its state in the control topic under the same key for every checkpoint, so
compaction removes all but the last state after a day. A checkpoint therefore lists the partitions
whose states it has, and its copies must contain these states.

In the ZEP the owner copies its partition when it processes the checkpoint, and the next owner
copies again unless the copy was committed. Here a worker copies: the control topic says what the
owner has saved, and the metadata of the committed offsets says what the group has processed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import METADATA, Control, Created, sn_of
from breakglass.services.checkpoint.kafka.logs import Ends, read_control, read_logs
from breakglass.services.checkpoint.protocol.values import NO_CHECKPOINT
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    Level,
    NumberedPartition,
    TakeDocument,
)
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    EvidenceChanged,
    Refused,
    TimedOut,
)
from breakglass.services.kafka.cluster.group_offsets import (
    find_coordinator,
    live_groups,
    read_offsets_of,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.answers import describe_error, only, retriable
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionState, TopicPartition

States = Mapping[int, Mapping[str, bytes]]
"""By the partition's number and the group."""


TopicIds = Mapping[TopicPartition, str]
"""The id of each partition's topic, as the control topic names it."""


def topic_ids(states: Iterable[PartitionState]) -> TopicIds:
    """The topic id of each partition, as the cluster has them."""
    return {state.partition: state.topic_id.hex for state in states}


def with_states(
    take: TakeDocument,
    cut: CutDocument,
    ids: TopicIds,
    starts: Mapping[int, int],
    control: Control,
) -> CutDocument:
    """*cut*, with the partitions that have a saved state, and the partitions that are replayed.

    A state that was saved at the checkpoint is valid from the cut. Without a state, or if the group
    resumes before the cut, the log is replayed: *starts* must show that it is complete.

    Raises Refused: retention has removed records that the replay needs.
    """
    groups = dict(cut.groups)
    for name, group in cut.groups.items():
        states, replayed = [], []
        for partition, number in take.numbers.items():
            key = name, ids[partition], partition.partition
            last = control.created.get(key)
            if last is None or last.state is None:
                continue
            end = cut.positions[number]
            found = _saved_at(take, end, key, control)
            offset = group.offsets.get(number, end)
            if found is not None:
                states.append(number)
            if found is None or found.position > offset:
                if starts[number]:
                    raise Refused(_not_replayed(take.level, name, partition, offset, found))
                replayed.append(number)
        groups[name] = replace(group, states=tuple(states), replayed=tuple(replayed))
    return replace(cut, groups=groups)


def _saved_at(
    take: TakeDocument, end: int, key: tuple[str, str, int], control: Control
) -> Created | None:
    """The state that an owner saved at the checkpoint whose cut is at *end*.

    An owner that skipped the checkpoint, because the next one begins at the same record, has saved
    the same state for the next one. A state recorded after the cut is later.
    """
    if take.level is not Level.COORDINATED:
        return None
    noted = control.noted.get(key, ())
    found = [created for created in noted if created.id >= take.id and created.position <= end]
    return found[-1] if found and found[-1].state is not None else None


def _not_replayed(
    level: Level, group: str, partition: TopicPartition, offset: int, found: Created | None
) -> str:
    gone = "retention has removed what it would be replayed from"
    if level is not Level.COORDINATED:
        return (
            f"unverifiable: group {group} goes on at {offset} in {partition} with a state "
            f"that it saves at coordinated checkpoints alone, and {gone}: take a coordinated one "
            f"with --group {group}=exactly-once"
        )
    if found is None:
        return (
            f"unverifiable: another checkpoint was taken since, and what group {group} had "
            f"saved for this one in {partition} is gone; {gone}: take the next one"
        )
    return (
        f"unverifiable: group {group} goes on at {offset} in {partition}, before the state "
        f"that it saved at {found.position}, and {gone}: take one with --group {group}="
        "exactly-once"
    )


def promised_states(
    take: TakeDocument, cut: CutDocument, ids: TopicIds, control: Control
) -> States:
    """The states that *cut* lists. Raises EvidenceChanged: a state is gone."""
    states: dict[int, dict[str, bytes]] = {}
    for partition, number in take.numbers.items():
        states[number] = {}
        for name, group in cut.groups.items():
            if number not in group.states:
                continue
            key = name, ids[partition], partition.partition
            found = _saved_at(take, cut.positions[number], key, control)
            if found is None or found.state is None:
                raise EvidenceChanged(
                    f"what group {name} had saved at checkpoint {take.id} in {partition} is gone "
                    "from the control topic: take a checkpoint with a new id"
                )
            states[number][name] = found.state
    return states


PAUSE_SECONDS = 0.1


def take_over(
    client: ReadClient, store: BackupStore, take: TakeDocument, control_topic: str
) -> tuple[int, ...]:
    """Fail the incomplete copies of partitions whose owners are past the checkpoint.

    Returns the numbers of the partitions that have failed. The caller copies the other partitions,
    next to the copies of the former worker (scenarios 1 to 7 of the ZEP).

    Raises ClusterError, Unreachable: the control topic or a group cannot be read.
    """
    last = come_to(client, take.partitions, tuple(take.writing), control_topic)
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
    """Return when the owner of each partition that a group has *read* has recorded the id.

    A group may have processed everything in the cut before its state is saved. The wait skips
    groups without state and members, and groups of consumers that are not participants.

    Raises:
        ClusterError: an owner has not by *deadline*.
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
    """The partitions of each group whose owners have not reached the checkpoint."""
    deadline = Deadline.after(patience.COMMAND)
    ids = topic_ids(read_logs(client, take.topics, deadline).states)
    control = read_control(client, control_topic, deadline) or Control()
    saving = {group for (group, _, _), one in control.created.items() if one.state is not None}
    found = {}
    for group, partitions in read.items():
        if group not in saving:
            # A group without state has to reach the checkpoint if it has active participants.
            broker = find_coordinator(client.sender, group, deadline)
            live = group in live_groups(client.sender, broker, deadline)
            if not live or not read_ids(client.sender, group, list(partitions), deadline):
                continue
        behind = [
            partition
            for partition in sorted(partitions)
            if max(_created(control, [group], ids, partition), default=0) < take.id
        ]
        if behind:
            found[group] = behind
    return found


def come_to(
    client: ReadClient,
    partitions: Sequence[NumberedPartition],
    groups: Sequence[str],
    control_topic: str,
) -> dict[int, int]:
    """The last checkpoint that the owner of each partition has reached, by partition number.

    Raises: as `take_over`.
    """
    deadline = Deadline.after(patience.COMMAND)
    topics = sorted({partition.topic for partition in partitions})
    ids = topic_ids(read_logs(client, topics, deadline).states)
    control = read_control(client, control_topic, deadline) or Control()
    processed = [read_ids(client.sender, group, list(ids), deadline) for group in groups]
    return {
        subject.number: max(
            [
                *_created(control, groups, ids, subject.topic_partition),
                *(one.get(subject.topic_partition, NO_CHECKPOINT) for one in processed),
            ],
            default=NO_CHECKPOINT,
        )
        for subject in partitions
    }


def _created(
    control: Control, groups: Iterable[str], ids: TopicIds, partition: TopicPartition
) -> Iterable[int]:
    keys = ((group, ids[partition], partition.partition) for group in groups)
    return (control.created[key].id for key in keys if key in control.created)


def read_ids(
    sender: Sender, group: str, partitions: Sequence[TopicPartition], deadline: Deadline
) -> Mapping[TopicPartition, int]:
    """The checkpoints in the metadata of the offsets of *group*, if its members are participants.

    Raises TimedOut: the group coordinator does not answer.
    """
    from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

    group_class = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(
        groups=[group_class(group_id=group, topics=None, member_epoch=-1)], require_stable=False
    )

    def read() -> dict[TopicPartition, int]:
        broker = find_coordinator(sender, group, deadline)
        answer = sender.call(broker, request, OffsetFetchResponse, deadline, max_version=9)
        found = only(answer.groups, f"b{broker}")
        if found.error_code:
            why = describe_error(found.error_code)
            message = f"group {group} cannot be read ({why}): try again"
            passes = retriable(found.error_code)
            raise TimedOut(message, why) if passes else ClusterError(message)
        metadata = {
            TopicPartition(topic.name, one.partition_index): one.metadata or ""
            for topic in found.topics
            for one in topic.partitions
            if not one.error_code
        }
        return {
            partition: sn_of(text)
            for partition, text in metadata.items()
            if partition in partitions and text.startswith(METADATA)
        }

    return until(deadline, read)


NAMED = 3
"""The number of partitions that a message names."""

NEAR = 16
"""Maximum number of offsets that are searched for records."""
Empty = Callable[[TopicPartition, int, int], bool]
Standing = Mapping[str, Mapping[TopicPartition, int]]
"""Committed offsets by group."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What a group has not processed of a cut."""

    group: str
    behind: tuple[tuple[TopicPartition, int, int], ...]
    """Partition, the group's offset, and the cut; empty: the group has no offset at all."""

    def __str__(self) -> str:
        if not self.behind:
            return f"group {self.group} has committed nothing on these topics"
        named = ", ".join(f"{one} at {at} of {to}" for one, at, to in self.behind[:NAMED])
        more = len(self.behind) - NAMED
        rest = f" and {more} partitions more" if more > 0 else ""
        return f"group {self.group} lags: {named}{rest}"


def read_named_groups(
    client: ReadClient,
    groups: Iterable[str],
    partitions: Collection[TopicPartition],
    deadline: Deadline,
) -> dict[str, dict[TopicPartition, int]]:
    """The offsets that *groups* have committed on *partitions*, without pending offsets (H11).

    Raises ClusterError, NotAuthorized, Unreachable: a group cannot be read.
    """
    client.describe(deadline)
    wanted, names = frozenset(partitions), tuple(groups)

    def read() -> dict[str, dict[TopicPartition, int]]:
        coordinators = _coordinators(client, names, deadline)
        found: dict[str, dict[TopicPartition, int]] = {group: {} for group in names}
        for broker in set(coordinators.values()):
            its = [group for group in names if coordinators[group] == broker]
            committed = read_offsets_of(client.sender, broker, its, wanted, deadline)
            for partition, offsets in committed.items():
                for group, offset in offsets.items():
                    found[group][partition] = offset
        if _coordinators(client, names, deadline) != coordinators:
            # A broker that has not learned of its successor still answers.
            raise TimedOut("a group has another coordinator now: try again", "a coordinator moved")
        return found

    return until(deadline, read)


def _coordinators(client: ReadClient, groups: Iterable[str], deadline: Deadline) -> dict[str, int]:
    return {group: find_coordinator(client.sender, group, deadline) for group in groups}


def read_by(group: Mapping[TopicPartition, int], cut: Ends) -> dict[TopicPartition, int]:
    """The part of *cut* in the topics on which the group has committed an offset."""
    topics = {partition.topic for partition in group}
    return {one: end for one, end in cut.items() if one.topic in topics}


def lags(standing: Standing, cut: Ends, empty: Empty = lambda *_: False) -> tuple[GroupLag, ...]:
    """The groups that have not committed up to *cut*.

    *empty* says whether a short range has nothing that a group processes: the offset of a stopped
    group is before the markers that follow its last record.
    """
    found = []
    for group, offsets in sorted(standing.items()):
        wanted = read_by(offsets, cut)
        behind = tuple(
            (one, at, end)
            for one, end in wanted.items()
            if (at := offsets.get(one, 0)) < end and not (end - at <= NEAR and empty(one, at, end))
        )
        if behind or not wanted:
            found.append(GroupLag(group, behind))
    return tuple(found)


def drained(
    client: ReadClient,
    groups: Collection[str],
    cut: Ends,
    deadline: Deadline,
    wait: Callable[[float], None],
    empty: Empty = lambda *_: False,
) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of *groups* once each has committed up to *cut* (H5); *empty* as in `lags`.

    Raises:
        ClusterError: a group has not by *deadline*; the message names it and its lag.
        BreakglassError: a group cannot be read until then.
    """
    while True:
        try:
            # Read the groups even when little time is left, so that the error names the group that
            # lags.
            standing = read_named_groups(client, groups, cut, Deadline.after(patience.REQUEST))
            late = lags(standing, cut, empty)
            if not late:
                return standing
            error: BreakglassError = ClusterError(
                f"not drained in time: {'; '.join(map(str, late))}: see that it runs, then take a "
                "checkpoint with a new id"
            )
        except BreakglassError as unread:
            if not unread.retriable:
                raise
            error = unread
        if deadline.passed:
            raise error
        wait(PAUSE_SECONDS)
