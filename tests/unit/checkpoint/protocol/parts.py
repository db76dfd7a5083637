"""What the simulation is made of: logs, snapshots, workers' jobs, and messages under way."""

from __future__ import annotations

from dataclasses import dataclass, field

from breakglass.services.checkpoint.protocol import worker
from breakglass.services.checkpoint.protocol.participant import Acknowledge
from tests.unit.checkpoint.protocol.bank import Kind, Record, State
from tests.unit.checkpoint.protocol.snapshots import Snapshot, Snapshots

CLIENT = -1
"""Where the coordinator is reached."""


@dataclass(frozen=True, slots=True)
class Message:
    to: int
    kind: Kind
    checkpoint: int
    transfer: tuple[int, int] = (0, 0)
    sender: int = CLIENT
    answer: Acknowledge | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """The content of a copy."""

    state: State
    log: tuple[Record, ...]


@dataclass(slots=True)
class Job:
    attempt: worker.CopyAttempt
    snapshot: Snapshot | None = None
    """None until the worker begins."""
    material: Material | None = None

    @property
    def position(self) -> int:
        assert self.attempt.position is not None
        return self.attempt.position


@dataclass(slots=True)
class Director:
    """A snapshot that is being taken."""

    snapshot: Snapshot
    state: State | None = None
    written: int = 0


@dataclass(slots=True)
class Partition:
    number: int
    owner: int = 0
    log: list[Record] = field(default_factory=list)
    committed: int = 0
    state: State = field(default_factory=State)
    snapshots: Snapshots = field(default_factory=lambda: Snapshots((Snapshot("s0", 0),)))
    states: dict[str, State] = field(default_factory=lambda: {"s0": State()})
    """What each stored snapshot holds."""
    director: Director | None = None
    jobs: list[Job] = field(default_factory=list)
    cut_off: list[Job] = field(default_factory=list)
    """Of former owners that do not know of it."""

    @property
    def end(self) -> int:
        """The position of the next record."""
        return len(self.log) + 1


@dataclass(slots=True)
class Rules:
    """What the checker must notice when it is missing."""

    forced: bool = True
    create_first: bool = True
    director: bool = True
    lock: bool = True
    cleanup: bool = True
    manifest_last: bool = True
