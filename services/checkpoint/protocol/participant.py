"""The partition owner's part of a checkpoint: pure state transitions of the BCS algorithm.

Each takes the partition's state and an event, and returns the required actions, in order. `receive`
and `process_create` are the ZEP's two steps, for logs to which only the owner writes. On Kafka a
sender writes to the log directly, so the record that carries an id is both message and command:
`read` combines the two steps, and participants call it for each record.
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
    """Append the received command; skipped if an append before it failed."""


@dataclass(frozen=True, slots=True)
class TakeCopy:
    """Start to copy the partition up to this position, without waiting for the copy."""

    checkpoint: int
    position: int


@dataclass(frozen=True, slots=True)
class AppendFollowUp:
    """Append this event, which follows the command."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Answer the client that requested the checkpoint, if there is a client."""

    checkpoint: int
    state: CheckpointState
    """The partition's last checkpoint: the requested or a later checkpoint."""
    started: bool
    """False: an earlier request or a message has already started it."""


Arrival: TypeAlias = AppendCreate | AppendCommand
Effect: TypeAlias = TakeCopy | AppendFollowUp | Acknowledge


def receive(state: CheckpointState, id: int) -> tuple[Arrival, ...]:
    """A command arrives from another partition that had checkpoint *id* when it sent the command.

    This is the forced checkpoint: its record precedes the command, so that the checkpoint contains
    the command only if it contains the sender's part too.
    """
    if state.id < id:
        return (AppendCreate(id), AppendCommand())
    return (AppendCommand(),)


def process_create(
    state: CheckpointState, command: CheckpointRecord
) -> tuple[CheckpointState, tuple[Effect, ...]]:
    """The partition processes a ``checkpoint:create``.

    The copy starts before the event is written: if the owner dies in between, its successor
    processes the command again, and no event exists without a copy.
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


def read(
    state: CheckpointState, id: int, position: int
) -> tuple[CheckpointState, tuple[Effect, ...]]:
    """A record that carries *id* is read from the log; everything before *position* is processed.

    The actions precede the processing of the record (H3): its outputs carry the id of the state
    that is returned.
    """
    state_after, effects = state, tuple[Effect, ...]()
    for arrival in receive(state, id):
        if isinstance(arrival, AppendCreate):
            command = CheckpointRecord(Intent.CREATE, arrival.checkpoint, position)
            state_after, effects = process_create(state, command)
    return state_after, effects


def replay(state: CheckpointState, event: CheckpointRecord) -> CheckpointState:
    """A new owner reads a former owner's event: it takes no copy."""
    if event.intent is Intent.CREATED and event.id > state.id:
        return CheckpointState(event.id, event.position)
    return state
