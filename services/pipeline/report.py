"""The report of a backup, by partition, and the progress of a running backup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.generations import Generation
from breakglass.services.topic_backup.summary import Gap, GapReason, Unproved, added


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a copy."""

    topic: str
    done: int
    """Offsets that were copied or accounted for, over all topics."""
    total: int
    bytes: int
    """The size of the records as written."""
    seconds: float


@dataclass(slots=True)
class PartitionReport:
    """One partition after its backup."""

    partition: TopicPartition
    start: int
    """The offset where this run started."""
    end: int
    """Every offset before it is backed up or a known gap."""
    records: int = 0
    bytes: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    """Offsets without a record, by reason."""
    lost: list[Gap] = field(default_factory=list)
    """Offsets that were removed before this run could copy them, as far as they are listed."""
    unproved: list[Unproved] = field(default_factory=list)
    """What may not be as it was in the topic."""
    compared: str = ""
    """The offsets of the folder that were compared with the topic before the copy."""
    held_back: int = 0
    """Offsets left out because they follow the start of an open transaction."""


@dataclass(slots=True)
class TopicReport:
    """One topic after its backup."""

    topic: str
    folder: str
    generation: int = 1
    others_aside: bool = False
    """Its folder has the name of the topic, although it is not the first generation."""
    new_generation: str = ""
    """Why this run started a new generation; empty if it did not."""
    partitions: list[PartitionReport] = field(default_factory=list)
    unread: Mapping[int, str] = field(default_factory=dict)
    """Partitions that could not be copied, with the reason."""
    partitions_before: int | None = None
    """How many partitions the topic had at the last commit; None if that is unknown."""
    groups_not_read: Sequence[str] = ()
    """Groups whose coordinator did not answer: their offsets are those of an earlier run."""
    error: str = ""
    """Why the topic was not backed up, or only partly."""
    other_log: bool = False
    """Whether the new generation is of another log than the older folder."""
    damages: list[str] = field(default_factory=list)
    """What is damaged in the backup, each in a sentence: the run went on behind it."""

    @property
    def place(self) -> Generation:
        return Generation(self.topic, self.generation, self.others_aside)

    @property
    def passed_over(self) -> bool:
        """Whether Kafka Backup ignores the folder: it reads only the one named as the topic."""
        return self.generation > 1 and not self.others_aside


@dataclass(slots=True)
class BackupReport:
    """A whole run."""

    topics: list[TopicReport] = field(default_factory=list)
    seconds: float = 0.0
    """Time from the first copy to the last manifest, without the start of Spark."""
    unread_groups: tuple[str, ...] = ()
    """Why offsets of some groups were not backed up."""
    away: bool = False

    @property
    def partitions(self) -> list[PartitionReport]:
        return [partition for topic in self.topics for partition in topic.partitions]

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    @property
    def missing(self) -> dict[str, int]:
        return added(*(partition.missing for partition in self.partitions))

    @property
    def whole(self) -> bool:
        """Whether every committed record and the offsets of every group are in the backup.

        Offsets without a record whose reason is unknown may have been records.
        """
        lacking = any(
            topic.error or topic.unread or topic.groups_not_read or topic.other_log or topic.damages
            for topic in self.topics
        )
        absent = {GapReason.LOST, GapReason.UNKNOWN}
        lost = any(part.lost or not absent.isdisjoint(part.missing) for part in self.partitions)
        doubted = any(part.unproved for part in self.partitions)
        return not (lacking or self.away or lost or doubted)
