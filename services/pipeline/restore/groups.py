"""Restores offsets of consumer groups, translated to the offsets of the restored topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    NotAuthorized,
    OutcomeUnknown,
    Refused,
    UsageError,
)
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.admin_client import GroupClient
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    GroupOffsets,
    find_coordinator,
    groups_unknown,
    live_groups,
    read_offsets_of,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition, log_of
from breakglass.services.pipeline.restore.offset_map import OffsetMap
from breakglass.services.pipeline.restore.options import RestorePlan
from breakglass.services.recovery.acts.move_groups import past_end_now, place_text
from breakglass.services.recovery.group_reset import RESTORE_STEP, MoveResult
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.folder_contents import RestorableTopic
from breakglass.services.topic_backup.group_history import GroupsByPartition
from breakglass.services.topic_backup.summary import PartitionSummary

NAMED = 5
"""The number of groups that a refusal names."""


def groups_of(
    held: RestorableTopic, chosen: Sequence[PartitionSummary], at_ms: int | None
) -> dict[int, dict[str, int]]:
    """The offsets of groups on the *chosen* partitions, as of *at_ms*, by default the newest.

    Raises:
        UsageError: no offsets were saved before that time.
        MalformedInput: the saved offsets cannot be read.
    """
    if at_ms is None:
        numbers = [part.partition for part in chosen]
        found = group_history.newest_offsets(held.folder, numbers)
    else:
        state = _state_at(held, at_ms).partitions
        found = {part.partition: state.get(part.partition, {}) for part in chosen}
    return {number: groups for number, groups in found.items() if groups}


def lacking(
    held: RestorableTopic, chosen: Sequence[PartitionSummary], at_ms: int | None
) -> tuple[str, ...]:
    """What the saved offsets lack of groups, each in a sentence. Raises as `groups_of`."""
    if at_ms is not None:
        return tuple(group_history.lacking(_state_at(held, at_ms)))
    gone = group_history.gone(held.folder, [part.partition for part in chosen])
    left_out = (
        f"groups that had no offset at the last run stay out: {_some(gone)}; --groups-at TIME "
        "restores those of another time"
    )
    found = group_history.lacking(group_history.newest_state(held.folder))
    return (*found, *([left_out] if gone else []))


def _state_at(held: RestorableTopic, at_ms: int) -> group_history.GroupState:
    known = group_history.states(held.folder)
    before = [(taken_at, written) for taken_at, written in known.items() if taken_at <= at_ms]
    if not before:
        first = group_history.moment(min(known)) if known else ""
        there = f"the first are of {first}" if known else "it has none at all"
        raise UsageError(
            f"{held.folder.where()} has no offsets of groups of {group_history.moment(at_ms)} or "
            f"before: {there}."
        )
    return group_history.read_state(held.folder, *before[-1])


def require_no_members(
    client: ReadClient, groups: Iterable[GroupsByPartition], *, or_else: str = ", then try again"
) -> None:
    """Check that no group of *groups* has members; *or_else* ends the advice of a refusal.

    Raises:
        Refused: a group has live members, or the partition that has its offsets is offline.
        NotAuthorized, Unreachable: the group coordinators cannot be asked.
    """
    names = sorted({name for group in groups for held in group.values() for name in held})
    if not names:
        return
    deadline = Deadline.after(patience.JOB)
    try:
        states = client.newest_partitions((OFFSETS_TOPIC,), deadline)
    except NotAuthorized:
        # Coordinators answer a user that may not describe the topic, too.
        states = ()
    offline = {state.partition for state in states if state.offline}
    logs = {name: log_of(name, OFFSETS_TOPIC, len(states)) for name in names if offline}
    hidden = [name for name, log in logs.items() if log in offline]
    if hidden:
        raise Refused(
            f"groups {_some(hidden)} have no coordinator, because "
            f"{groups_unknown(sorted({logs[name] for name in hidden}))}: see `breakglass triage` "
            f"for it{or_else}"
        )
    coordinators = {find_coordinator(client.sender, name, deadline) for name in names}
    live = {
        name for broker in coordinators for name in live_groups(client.sender, broker, deadline)
    }
    busy = sorted(live.intersection(names))
    if busy:
        raise Refused(
            f"consumers of {_some(busy)} are running, so nothing is restored: stop them{or_else}"
        )


def groups_to_reset(client: ReadClient, plan: RestorePlan) -> Iterator[str]:
    """Groups that would skip records once *plan* has made a log longer, each in a sentence (R37).

    They committed past the end of a log that gets records, or past a cut of it.
    """
    filled = {topic.target: topic for topic in plan.topics if topic.exists and topic.records}
    if not filled:
        return
    try:
        found = past_end_now(client, tuple(sorted(filled)))
    except BreakglassError as error:
        yield f"? groups that committed past the end of these logs are not known: {error}"
        return
    for move in (*found.moves, *found.left):
        yield (
            f"group {move.group} committed {place_text(move.committed)} on {move.partition}, past "
            "the end of its log or past a cut: run `breakglass after groups reset` before this "
            "restore, or the group skips the records that are put there"
        )
    for doubt in found.doubts:
        yield f"? {doubt}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


SNAPSHOT = "offsets of groups before the restore"

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True)
class GroupRestore:
    """Commits the offsets of groups on one restored topic."""

    sender: Sender
    client: GroupClient
    journal: Journal
    topic: str
    done: dict[str, dict[int, int]] = field(default_factory=dict, init=False)
    """New offset by group and partition."""
    failed: dict[str, str] = field(default_factory=dict, init=False)
    """Why a group was not moved, by group."""
    _before: dict[str, dict[TopicPartition, int]] = field(default_factory=dict, init=False)

    def snapshot(self, groups: GroupsByPartition) -> None:
        """Journal the current offsets of *groups*, before anything changes.

        Raises:
            ClusterError, Unreachable: the offsets cannot be read.
            StorageError: the journal cannot be written.
        """
        partitions = [TopicPartition(self.topic, number) for number in groups]
        for group in sorted({name for held in groups.values() for name in held}):
            self._before[group] = self._standing(group, partitions)
        if self._before:
            standing = {
                group: {str(partition): offset for partition, offset in held.items()}
                for group, held in self._before.items()
            }
            self.journal.note(SNAPSHOT, topic=self.topic, groups=standing)

    def restore(self, groups: GroupsByPartition, maps: Mapping[int, OffsetMap]) -> None:
        wanted: dict[str, dict[TopicPartition, int]] = {}
        for number, offsets in groups.items():
            if number in maps:
                for group, offset in offsets.items():
                    partition = TopicPartition(self.topic, number)
                    wanted.setdefault(group, {})[partition] = maps[number].new_of(offset)
        for group, moves in wanted.items():
            self._move(group, moves)

    def _move(self, group: str, offsets: Offsets) -> None:
        try:
            errors = self._commit(group, offsets)
        except BreakglassError as error:
            self.failed[group] = str(error)
            return
        failed = [f"{partition}: {reason}" for partition, reason in errors.items() if reason]
        if failed:
            self.failed[group] = "; ".join(failed)
        else:
            self.done[group] = {
                partition.partition: offset for partition, offset in offsets.items()
            }

    def _commit(self, group: str, offsets: Offsets) -> Mapping[TopicPartition, str]:
        """Commit *offsets*, journaled with the previous offsets; return the errors by partition."""
        deadline = Deadline.after(patience.JOB)
        broker = find_coordinator(self.sender, group, deadline)
        before = self._standing(group, offsets)
        moves = {
            partition: {"from": before.get(partition), "to": to}
            for partition, to in offsets.items()
        }
        request = self.journal.request(RESTORE_STEP, moves, group=group)
        try:
            errors = self.client.commit(broker, group, offsets, deadline)
        except BreakglassError as error:
            unknown = isinstance(error, OutcomeUnknown)
            result = MoveResult.UNKNOWN if unknown else MoveResult.FAILED
            ended = {"result": result.value, "reason": str(error)}
            self.journal.outcome(request, dict.fromkeys(offsets, ended))
            raise
        # *errors*, and an error for each partition whose committed offset is not the new one.
        now = self._standing(group, offsets)
        errors = {
            partition: errors[partition]
            or ("" if now.get(partition) == to else "accepted, but the committed offset is another")
            for partition, to in offsets.items()
        }
        moved = {True: MoveResult.FAILED.value, False: MoveResult.MOVED.value}
        results = {one: {"result": moved[bool(why)], "reason": why} for one, why in errors.items()}
        self.journal.outcome(request, results)
        return errors

    def _standing(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        deadline, wanted = Deadline.after(patience.JOB), frozenset(partitions)

        def read() -> GroupOffsets:
            broker = find_coordinator(self.sender, group, deadline)
            return read_offsets_of(self.sender, broker, [group], wanted, deadline)

        found = until(deadline, read)
        return {partition: groups[group] for partition, groups in found.items()}
