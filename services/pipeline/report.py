"""What a backup did, partition by partition, and how far one under way has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.model import TopicPartition


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How far the copying is."""

    topic: str
    """What is being copied now."""
    done: int
    """Offsets copied or accounted for, of all topics."""
    total: int
    bytes: int
    """Of records, as written."""
    seconds: float
    """Since the first copy began."""


@dataclass(slots=True)
class PartitionReport:
    """One partition after its backup."""

    partition: TopicPartition
    start: int
    """Where this run began."""
    end: int
    """Everything before it is backed up or accounted for."""
    records: int = 0
    bytes: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    """Offsets without a record, by reason."""
    held_back: int = 0
    """Offsets left out because a transaction before them is open."""


@dataclass(slots=True)
class TopicReport:
    """One topic after its backup."""

    topic: str
    folder: str
    generation: int = 1
    others_aside: bool = False
    """Its folder has the topic's own name, whatever its generation."""
    new_generation: str = ""
    """Why a new generation was begun in this run; empty when none was."""
    partitions: list[PartitionReport] = field(default_factory=list)
    unread: Mapping[int, str] = field(default_factory=dict)
    """Partitions that could not be copied, with the reason."""
    error: str = ""
    """Why the topic was not backed up, or only in part."""

    @property
    def passed_over(self) -> bool:
        """Kafka Backup does not find it: it reads the folder of the topic's own name alone."""
        return self.generation > 1 and not self.others_aside


@dataclass(slots=True)
class BackupReport:
    """A whole run."""

    topics: list[TopicReport] = field(default_factory=list)
    seconds: float = 0.0
    """From the first copy to the last manifest; the start of Spark is not in it."""
    unread_groups: tuple[str, ...] = ()
    """Why offsets of some groups were not backed up."""

    @property
    def partitions(self) -> list[PartitionReport]:
        """Of all topics."""
        return [one for topic in self.topics for one in topic.partitions]

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.partitions)

    @property
    def missing(self) -> dict[str, int]:
        """Offsets without a record, by reason."""
        counts: dict[str, int] = {}
        for one in self.partitions:
            for reason, count in one.missing.items():
                counts[reason] = counts.get(reason, 0) + count
        return counts

    @property
    def whole(self) -> bool:
        """Whether everything that was asked for, and could be read as committed, is there."""
        return not any(one.error or one.unread for one in self.topics)
