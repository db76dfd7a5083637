"""Gives consumer groups the offsets that stand, in a restored topic, for those they had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.errors import BreakglassError, ClusterError, OutcomeUnknown
from services.kafka.cluster.coordinators import find_coordinator
from services.kafka.cluster.group_offsets import read_group_offsets
from services.kafka.group_client import GroupClient
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.sender import Sender
from services.model import TopicPartition, Unknown
from services.pipeline.restore.group_choice import GroupsByPartition
from services.pipeline.restore.offset_map import OffsetMap
from services.recovery.execution.record import ExecutionJournal
from services.recovery.group_reset import RESTORE_STEP, MoveResult

SNAPSHOT = "offsets of groups before the restore"
ASK_SECONDS = 60.0

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
