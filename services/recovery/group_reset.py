"""Groups that committed past the end of a recovered log, and moving them back to its end (R19).

Moving a group loses nothing. A group whose offset is past the end reads nothing until the offset
is valid again; otherwise each consumer's auto.offset.reset decides where the group resumes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.errors import BreakglassError, OutcomeUnknown
from breakglass.services.guard.journal_view import JournalStep, JournalView
from breakglass.services.kafka.cluster.group_offsets import (
    GroupOffsets,
    describing,
    read_committed,
    read_group_offsets,
)
from breakglass.services.kafka.group_client import GroupClient
from breakglass.services.kafka.offsets_topic import offline_offsets
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.leader_ends import read_leader_ends
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.execution.record import ExecutionJournal

STEP = "commit group offsets"
RESTORE_STEP = "restore group offsets"
"""The step of a topic's restore, which may give a group its first offset."""


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """A committed offset to be moved."""

    group: str
    partition: TopicPartition
    committed: int | None
    """The present offset; if it has changed by then, the move is refused. None: not committed."""
    to: int | None
    """The new offset; None: the offset is removed, as before its first commit."""

    @property
    def back(self) -> OffsetMove:
        """The move that undoes this one."""
        return OffsetMove(self.group, self.partition, self.to, self.committed)


class MoveResult(StrEnum):
    """How a move ended."""

    MOVED = "moved"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MovedOffset:
    """The result of a move."""

    move: OffsetMove
    result: MoveResult
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """Committed offsets of groups, and the coordinator of each."""

    offsets: GroupOffsets
    coordinators: Mapping[str, int]
    unread: Mapping[int, str]
    """Brokers whose groups could not be read, with the reason."""
    missing_acls: tuple[str, ...] = ()
    """``DESCRIBE on group billing``: groups that this user may not describe are not among these."""
    offline: tuple[TopicPartition, ...] = ()
    """Partitions of `__consumer_offsets` without leader: nobody can read the groups there."""


def moves_past_end(
    standing: GroupStanding, ends: Mapping[TopicPartition, int]
) -> tuple[OffsetMove, ...]:
    """A move to the log's end for each group that committed past it; sorted by group."""
    return tuple(
        sorted(
            (
                OffsetMove(group, partition, committed, ends[partition])
                for partition, groups in standing.offsets.items()
                if partition in ends
                for group, committed in groups.items()
                if committed > ends[partition]
            ),
            key=lambda move: (move.group, move.partition),
        )
    )


def moves_of(view: JournalView) -> tuple[OffsetMove, ...]:
    """The moves that a journal says were made, or may have been."""
    return tuple(
        OffsetMove(
            str(step.request.payload["group"]),
            partition,
            None if item["from"] is None else int(item["from"]),
            int(item["to"]),
        )
        for step in view.steps
        if step.name in (STEP, RESTORE_STEP)
        for partition, item in step.items.items()
        if _made(step, partition) and item["from"] != item["to"]
    )


def _made(step: JournalStep, partition: TopicPartition) -> bool:
    """Whether the move was made, or may have been: then the group's own offset decides."""
    outcome = step.outcomes.get(partition)
    return outcome is None or outcome.result in (MoveResult.MOVED, MoveResult.UNKNOWN)


def read_standing(
    client: ReadClient,
    brokers: Iterable[int],
    wanted: Container[TopicPartition],
    deadline: Deadline,
) -> GroupStanding:
    """The offsets that every group committed on *wanted* partitions."""
    offsets: GroupOffsets = {}
    coordinators: dict[str, int] = {}
    unread: dict[int, str] = {}
    hidden: list[str] = []
    for broker in brokers:
        committed = read_committed(client.sender, broker, wanted, deadline)
        hidden += committed.hidden
        if committed.unready:
            unread[broker] = committed.unready
        offsets_read = committed.offsets
        if isinstance(offsets_read, Unknown):
            unread[broker] = offsets_read.reason
            continue
        for partition, groups in offsets_read.items():
            offsets.setdefault(partition, {}).update(groups)
            coordinators.update(dict.fromkeys(groups, broker))
    acls = tuple(map(describing, sorted(hidden)))
    return GroupStanding(offsets, coordinators, unread, acls, offline_offsets(client, deadline))


def read_ends(
    client: ReadClient, states: Iterable[PartitionState], deadline: Deadline
) -> dict[TopicPartition, int]:
    """The high watermarks of partitions; partitions of leaders that do not answer are left out."""
    ends = read_leader_ends(client.sender, states, deadline)
    return {partition: end for partition, end in ends.items() if not isinstance(end, Unknown)}


def carry_out(
    client: GroupClient,
    read: ReadClient,
    journal: ExecutionJournal,
    moves: Sequence[OffsetMove],
    coordinators: Mapping[str, int],
    seconds: float,
) -> list[MovedOffset]:
    """Commit *moves*, group by group, each read again immediately before and confirmed after."""
    done: list[MovedOffset] = []
    for group in dict.fromkeys(move.group for move in moves):
        wanted = [move for move in moves if move.group == group]
        broker = coordinators.get(group)
        if broker is None:
            done += [_changed(move, Unknown("cannot be read")) for move in wanted]
            continue
        now = _committed(read, broker, wanted, seconds)
        if isinstance(now, Unknown):
            done += [_changed(move, now) for move in wanted]
            continue
        changed = [move for move in wanted if now.get(move.partition) != move.committed]
        done += [_changed(move, now.get(move.partition)) for move in changed]
        ready = [move for move in wanted if move not in changed]
        if ready:
            done += _commit(client, read, journal, ready, broker, seconds)
    return done


def _commit(
    client: GroupClient,
    read: ReadClient,
    journal: ExecutionJournal,
    moves: Sequence[OffsetMove],
    coordinator: int,
    seconds: float,
) -> list[MovedOffset]:
    group = moves[0].group
    request = journal.request(
        STEP,
        {move.partition: {"from": move.committed, "to": move.to} for move in moves},
        group=group,
    )
    try:
        errors = _send(client, coordinator, moves, Deadline.after(seconds))
    except OutcomeUnknown as error:
        ended = [MovedOffset(move, MoveResult.UNKNOWN, str(error)) for move in moves]
    except BreakglassError as error:
        ended = [MovedOffset(move, MoveResult.FAILED, str(error)) for move in moves]
    else:
        now = _committed(read, coordinator, moves, seconds)
        ended = [_ended(move, errors[move.partition], now) for move in moves]
    journal.outcome(
        request,
        {
            moved.move.partition: {"result": moved.result.value, "reason": moved.reason}
            for moved in ended
        },
    )
    return ended


def _send(
    client: GroupClient, coordinator: int, moves: Sequence[OffsetMove], deadline: Deadline
) -> dict[TopicPartition, str]:
    """Commit and remove offsets; gives an error in words for each."""
    group = moves[0].group
    commits = {move.partition: move.to for move in moves if move.to is not None}
    removed = [move.partition for move in moves if move.to is None]
    errors = client.commit(coordinator, group, commits, deadline) if commits else {}
    return errors | (client.remove(coordinator, group, removed, deadline) if removed else {})


def _committed(
    read: ReadClient, coordinator: int, moves: Sequence[OffsetMove], seconds: float
) -> dict[TopicPartition, int] | Unknown:
    """The committed offsets of the group of *moves* now; Unknown without its coordinator."""
    wanted = {move.partition for move in moves}
    current = read_group_offsets(read.sender, coordinator, wanted, Deadline.after(seconds))
    if isinstance(current, Unknown):
        return current
    group = moves[0].group
    return {partition: groups[group] for partition, groups in current.items() if group in groups}


def _changed(move: OffsetMove, now: int | None | Unknown) -> MovedOffset:
    if isinstance(now, Unknown):
        stands = "cannot be read"
    else:
        stands = "is nowhere now" if now is None else f"stands at {now:,} now"
    return MovedOffset(move, MoveResult.REFUSED, f"the group's offset {stands}: look again")


def _ended(
    move: OffsetMove, error: str, now: Mapping[TopicPartition, int] | Unknown
) -> MovedOffset:
    if error:
        return MovedOffset(
            move, MoveResult.FAILED, f"{error}: stop the group's consumers, then again"
        )
    if isinstance(now, Unknown) or now.get(move.partition) != move.to:
        return MovedOffset(move, MoveResult.UNKNOWN, "accepted, and not seen in place: look again")
    return MovedOffset(move, MoveResult.MOVED)
