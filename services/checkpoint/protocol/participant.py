"""What a partition's owner does about checkpoints: pure transitions of the BCS algorithm.

Each takes the partition's state and what happened, and says what has to be done, in order. The
state is part of what the partition's snapshot holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from breakglass.services.checkpoint.protocol.values import NO_CHECKPOINT, CheckpointRecord, Intent


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The last checkpoint of a partition."""

    id: int = NO_CHECKPOINT
    position: int = 0


@dataclass(frozen=True, slots=True)
class AppendCreate:
    """Append ``checkpoint:create`` of this id to the partition's log."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class AppendCommand:
    """Append the command that was received; not done where an append before it failed."""


@dataclass(frozen=True, slots=True)
class TakeCopy:
    """Have the partition copied up to this position, without waiting for it."""

    checkpoint: int
    position: int


@dataclass(frozen=True, slots=True)
class AppendFollowUp:
    """Append this event, which follows the command."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Answer whoever asked for the checkpoint, if somebody did."""

    checkpoint: int
    """That was asked for."""
    state: CheckpointState
    """The partition's last checkpoint, which is that one or a later one."""
    started: bool
    """False: it was started before, by an earlier request or by a message."""


@dataclass(frozen=True, slots=True)
class FailUnfinished:
    """Record failures of what a former owner left: see `worker.unfinished`."""

    checkpoint: int
    """And of every one before it."""


Arrival: TypeAlias = AppendCreate | AppendCommand
Effect: TypeAlias = TakeCopy | AppendFollowUp | Acknowledge


def receive(state: CheckpointState, id: int) -> tuple[Arrival, ...]:
    """A command from another partition arrives, sent when that one's checkpoint was *id*.

    The forced checkpoint: its record comes before the command, so that the command is not in
    the checkpoint unless its sender's part of it is.
    """
    if state.id < id:
        return (AppendCreate(id), AppendCommand())
    return (AppendCommand(),)


def process_create(
    state: CheckpointState, command: CheckpointRecord
) -> tuple[CheckpointState, tuple[Effect, ...]]:
    """The partition's processing has come to a ``checkpoint:create``.

    The copy is asked for before the event is written: an owner that dies in between leaves a
    command that its successor processes again, never an event without a copy.
    """
    if state.id >= command.id:
        ignored = CheckpointRecord(Intent.IGNORED, state.id, state.position)
        answer = Acknowledge(command.id, state, started=False)
        return state, (AppendFollowUp(ignored), answer)
    after = CheckpointState(command.id, command.position)
    created = CheckpointRecord(Intent.CREATED, after.id, after.position)
    return after, (
        TakeCopy(after.id, after.position),
        AppendFollowUp(created),
        Acknowledge(command.id, after, started=True),
    )


def replay(state: CheckpointState, event: CheckpointRecord) -> CheckpointState:
    """A new owner reads an event of a former one: it takes no copy."""
    if event.intent is Intent.CREATED and event.id > state.id:
        return CheckpointState(event.id, event.position)
    return state


def recover(state: CheckpointState) -> FailUnfinished | None:
    """A new owner has replayed everything, and is about to process."""
    return FailUnfinished(state.id) if state.id != NO_CHECKPOINT else None
