"""Which offsets of consumer groups are restored, and whether the groups can be moved at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from services.errors import BreakglassError, ClusterError, OutcomeUnknown, Refused, UsageError
from services.kafka.cluster.coordinators import find_coordinator
from services.kafka.cluster.group_offsets import read_group_offsets
from services.kafka.cluster.group_states import live_groups
from services.kafka.group_client import GroupClient
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.sender import Sender
from services.model import TopicPartition, Unknown
from services.pipeline.restore.offset_map import OffsetMap
from services.recovery.execution.record import ExecutionJournal
from services.recovery.group_reset import RESTORE_STEP, MoveResult
from services.topic_backup import consumer_offsets, group_history
from services.topic_backup.held import RestorableTopic
from services.topic_backup.summary import PartitionSummary

ASK_SECONDS = 60.0
NAMED = 5
"""Groups that a refusal names."""

GroupsByPartition = Mapping[int, Mapping[str, int]]
"""Committed offset by partition and group."""


def groups_of(
    held: RestorableTopic, chosen: Sequence[PartitionSummary], at_ms: int | None
) -> dict[int, dict[str, int]]:
    """The groups' offsets on the *chosen* partitions, as they were at that time or newest.

    Raises:
        UsageError: none were saved before that time.
        MalformedInput: they cannot be read.
    """
    if at_ms is None:
        found = {one.partition: consumer_offsets.read(held.folder, one.partition) for one in chosen}
    else:
        state = _state_at(held, at_ms)
        found = {one.partition: state.get(one.partition, {}) for one in chosen}
    return {number: groups for number, groups in found.items() if groups}


def _state_at(held: RestorableTopic, at_ms: int) -> dict[int, dict[str, int]]:
    taken = group_history.times(held.folder.names())
    before = [one for one in taken if one <= at_ms]
    if not before:
        known = f"the first is of {_moment(taken[0])}" if taken else "there are none at all"
        raise UsageError(
            f"{held.folder.where()} has no offsets of groups as early as {_moment(at_ms)}: {known}."
        )
    return group_history.read_state(held.folder, before[-1])


def _moment(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def require_no_members(
    client: ReadClient, groups: Iterable[GroupsByPartition], *, or_else: str = ", then try again"
) -> None:
    """Return if every one of *groups* can be moved; *or_else* ends what a refusal advises.

    Raises:
        Refused: some have live members.
        NotAuthorized, Unreachable: that cannot be asked.
    """
    names = sorted({name for one in groups for held in one.values() for name in held})
    if not names:
        return
    deadline = Deadline.after(ASK_SECONDS)
    coordinators = {find_coordinator(client.sender, name, deadline) for name in names}
    live = {name for one in coordinators for name in live_groups(client.sender, one, deadline)}
    kept = sorted(live.intersection(names))
    if kept:
        more = f" and {len(kept) - NAMED:,} more" if len(kept) > NAMED else ""
        raise Refused(
            f"consumers of {', '.join(kept[:NAMED])}{more} are running, so nothing is restored: "
            f"stop them{or_else}"
        )


SNAPSHOT = "offsets of groups before the restore"

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True)
class GroupRestore:
    """The groups of one restored topic."""

    sender: Sender
    client: GroupClient
    journal: ExecutionJournal
    topic: str
    done: dict[str, dict[int, int]] = field(default_factory=dict, init=False)
    """New offset by group and partition."""
    failed: dict[str, str] = field(default_factory=dict, init=False)
    """Why a group was not moved, as when its consumers run."""
    _before: dict[str, dict[TopicPartition, int]] = field(default_factory=dict, init=False)

    def snapshot(self, groups: GroupsByPartition) -> None:
        """Write down where each of *groups* stands, before anything is changed.

        Raises:
            ClusterError, Unreachable: it cannot be read.
            StorageError: it cannot be written.
        """
        partitions = [TopicPartition(self.topic, number) for number in groups]
        for group in sorted({name for held in groups.values() for name in held}):
            self._before[group] = self._standing(group, partitions)
        if self._before:
            standing = {
                group: {str(one): offset for one, offset in held.items()}
                for group, held in self._before.items()
            }
            self.journal.note(SNAPSHOT, topic=self.topic, groups=standing)

    def restore(self, groups: GroupsByPartition, maps: Mapping[int, OffsetMap]) -> None:
        """Commit for each of *groups*, given with its old offset by partition."""
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
        failed = [f"{one}: {reason}" for one, reason in errors.items() if reason]
        if failed:
            self.failed[group] = "; ".join(failed)
        else:
            self.done[group] = {one.partition: offset for one, offset in offsets.items()}

    def _commit(self, group: str, offsets: Offsets) -> Mapping[TopicPartition, str]:
        """Commit, with where the group stood before in the journal; errors in words."""
        deadline = Deadline.after(ASK_SECONDS)
        broker = find_coordinator(self.sender, group, deadline)
        before = self._standing(group, offsets)
        moves = {one: {"from": before.get(one), "to": to} for one, to in offsets.items()}
        request = self.journal.request(RESTORE_STEP, moves, group=group)
        try:
            errors = self.client.commit(broker, group, offsets, deadline)
        except BreakglassError as error:
            unknown = isinstance(error, OutcomeUnknown)
            result = MoveResult.UNKNOWN if unknown else MoveResult.FAILED
            ended = {"result": result.value, "reason": str(error)}
            self.journal.outcome(request, dict.fromkeys(offsets, ended))
            raise
        errors = self._confirmed(group, offsets, errors)
        self.journal.outcome(request, {one: _result(why) for one, why in errors.items()})
        return errors

    def _confirmed(
        self, group: str, offsets: Offsets, errors: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, str]:
        """*errors*, and a word where the group is not seen to stand where it was put."""
        now = self._standing(group, offsets)
        return {
            one: errors[one] or ("" if now.get(one) == to else "accepted, and not seen in place")
            for one, to in offsets.items()
        }

    def _standing(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        deadline = Deadline.after(ASK_SECONDS)
        broker = find_coordinator(self.sender, group, deadline)
        told = read_group_offsets(self.sender, broker, frozenset(partitions), deadline)
        if isinstance(told, Unknown):
            raise ClusterError(f"group {group} cannot be read ({told.reason}): try again")
        return {one: groups[group] for one, groups in told.items() if group in groups}


def _result(why: str) -> dict[str, str]:
    result = MoveResult.FAILED if why else MoveResult.MOVED
    return {"result": result.value, "reason": why}
