"""What elections report while they run, besides the events of every guarded act."""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.guard.act import ActEvent
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import PartitionOutcome
from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress


@dataclass(frozen=True, slots=True)
class RescueProgressed(ActEvent):
    """The records that the elections will cut off are being saved; reported now and then."""

    progress: RescueProgress


@dataclass(frozen=True, slots=True)
class RescueEnded(ActEvent):
    """A result for each partition of which something was to be saved."""

    results: tuple[RescuedPartition, ...]


@dataclass(frozen=True, slots=True)
class BatchBegun(ActEvent):
    """The last look at these partitions begins, then their election."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OutcomesReported(ActEvent):
    """The outcomes of a batch, or of partitions for which nothing was sent."""

    outcomes: tuple[PartitionOutcome, ...]
