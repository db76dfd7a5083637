"""What a guarded election tells while it runs, as frozen values, in the order they happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.model import TopicPartition
from services.recovery.execution.target import PartitionOutcome
from services.recovery.rescue.results import RescuedPartition, RescueProgress


@dataclass(frozen=True, slots=True)
class Armed:
    """A client that can elect exists: from here on the run ends between two batches only."""


@dataclass(frozen=True, slots=True)
class JournalOpened:
    """Plan and consents are on disk."""

    path: Path


@dataclass(frozen=True, slots=True)
class RescueProgressed:
    """What the elections will cut off is being saved; told at the start and now and then."""

    progress: RescueProgress


@dataclass(frozen=True, slots=True)
class RescueEnded:
    """One for each partition that something was to be saved of."""

    results: tuple[RescuedPartition, ...]


@dataclass(frozen=True, slots=True)
class BatchBegun:
    """The last look at these partitions, then their election."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OutcomesTold:
    """What came of a batch, or of partitions that nothing was sent for."""

    outcomes: tuple[PartitionOutcome, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over."""

    result: str | None
    """As the journal has it; None when it was stopped and can be resumed."""


Event = (
    Armed | JournalOpened | RescueProgressed | RescueEnded | BatchBegun | OutcomesTold | Finished
)
Tell = Callable[[Event], None]
"""Called in the thread that runs the election, which goes on when it returns."""
