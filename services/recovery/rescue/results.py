"""What became of a rescue, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.rescue.spans import Span


@dataclass(frozen=True, slots=True)
class RescueProgress:
    """How far a rescue is."""

    folder: Path
    partitions: int
    """Something of each is to be saved."""
    copied: int
    """Records."""
    at_most: int
    """Offsets to be copied; fewer records where a log was compacted."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What was saved from one replica, durable and committed."""

    broker: int
    spans: tuple[Span, ...]
    """What was asked for; all of it is there unless the partition has a reason."""
    records: int
    """Data records written; transaction markers stand in the batch log beside them."""
    bytes: int
    """Of the records files."""
    path: Path
    """Address for `breakglass backup cat`: folder of the backup, topic, partition."""


@dataclass(frozen=True, slots=True)
class RescuedPartition:
    """One partition."""

    partition: TopicPartition
    designee: int
    saved: tuple[Saved, ...] = ()
    """One for each replica that something was saved from."""
    reason: str = ""
    """Why something is missing; empty when all is saved, or nothing was to be."""

    @property
    def whole(self) -> bool:
        """All that the election cuts off readable replicas is saved."""
        return not self.reason

    @property
    def records(self) -> int:
        return sum(one.records for one in self.saved)
