"""Moves committed offsets of groups: each is read again immediately before, and confirmed after.

Moving a group loses no record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from breakglass.services.errors import BreakglassError, OutcomeUnknown
from breakglass.services.guard.journal import Journal, JournalStep, JournalView
from breakglass.services.kafka.admin_client import GroupClient
from breakglass.services.kafka.cluster.group_offsets import read_offsets_of
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown

STEP = "commit group offsets"
RESTORE_STEP = "restore group offsets"
"""The step of a topic's restore, which may give a group its first offset."""


class MoveReason(StrEnum):
    """Why an offset is to be moved."""

    PAST_END = "past the log end"
    REFILLED = "the log was cut below it, and other records are there"
    SET_BACK = "an election lost what the group had committed"
    UNDO = "as before the move"


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """A committed offset to be moved."""

    group: str
    partition: TopicPartition
    committed: int | None
    """The present offset; if it has changed by then, the move is refused. None: not committed."""
    to: int | None
    """The new offset; None: the offset is removed, as before its first commit."""
    reason: MoveReason = field(default=MoveReason.PAST_END, compare=False)
    fork_known: bool = field(default=True, compare=False)
    """False: the log parts from what the group has read at *to* or below, so that it is not moved.
    """

    @property
    def back(self) -> OffsetMove:
        return OffsetMove(self.group, self.partition, self.to, self.committed, MoveReason.UNDO)


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


def carry_out(
    client: GroupClient,
    read: ReadClient,
    journal: Journal,
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
            done += [_changed(move, Unknown("no coordinator is known")) for move in wanted]
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
    journal: Journal,
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
    group = moves[0].group
    try:
        current = read_offsets_of(
            read.sender, coordinator, [group], wanted, Deadline.after(seconds)
        )
    except BreakglassError as error:
        return Unknown(str(error))
    return {partition: groups[group] for partition, groups in current.items() if group in groups}


def _changed(move: OffsetMove, now: int | None | Unknown) -> MovedOffset:
    if isinstance(now, Unknown):
        stands = f"cannot be read ({now.reason})"
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
