"""What the simulated partitions process: transfers between them, confirmed and sent again until so.

A pure function of the commands of a log, so what any prefix of it means is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from breakglass.services.checkpoint.protocol.participant import CheckpointState
from breakglass.services.checkpoint.protocol.values import CheckpointRecord

Transfer = tuple[int, int]
"""The partition that sends, and the position of the command there."""


class Kind(StrEnum):
    CREATE = "create"
    TRANSFER = "transfer"
    RECEIVE = "receive"
    CONFIRM = "confirm"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class Record:
    position: int
    kind: Kind
    checkpoint: int = 0
    """Of a create: its id. Of what a message brought: the id it carried."""
    transfer: Transfer = (0, 0)
    peer: int = 0
    source: int = 0
    """Of an event: the position of the command it follows."""
    follow_up: CheckpointRecord | None = None


@dataclass(frozen=True, slots=True)
class State:
    """All that a partition's snapshot holds."""

    checkpoint: CheckpointState = field(default_factory=CheckpointState)
    balance: int = 0
    pending: frozenset[tuple[Transfer, int]] = frozenset()
    """Sent and not confirmed, with where to."""
    received: frozenset[Transfer] = frozenset()
    processed: int = 0

    @property
    def money(self) -> tuple[int, frozenset[tuple[Transfer, int]], frozenset[Transfer]]:
        return self.balance, self.pending, self.received


def process(state: State, partition: int, command: Record) -> State:
    """One unit is moved by each transfer. A create leaves the money alone."""
    balance, pending, received = state.balance, state.pending, state.received
    match command.kind:
        case Kind.TRANSFER:
            balance -= 1
            pending |= {((partition, command.position), command.peer)}
        case Kind.RECEIVE if command.transfer not in received:
            balance += 1
            received |= {command.transfer}
        case Kind.CONFIRM:
            pending = frozenset(pair for pair in pending if pair[0] != command.transfer)
    return State(state.checkpoint, balance, pending, received, command.position)


def up_to(state: State, partition: int, log: Iterable[Record], position: int) -> State:
    """Where processing the commands of *log* up to *position* leads from *state*."""
    for record in log:
        if state.processed < record.position <= position and record.kind is not Kind.EVENT:
            state = process(state, partition, record)
    return state


def settled(states: list[State]) -> list[State]:
    """After a restore: what is pending is sent again, received once, and confirmed."""
    for number, state in enumerate(states):
        for transfer, peer in state.pending:
            to = states[peer]
            if transfer not in to.received:
                received = to.received | {transfer}
                states[peer] = replace(to, balance=to.balance + 1, received=received)
        states[number] = replace(states[number], pending=frozenset())
    return states
