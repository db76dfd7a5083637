"""Compares a backup with a topic: records that are missing, extra or different, by offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from breakglass.services import patience
from breakglass.services.errors import UsageError
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.comparison import LISTED, Differences, TopicSides, compare_topic
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import TopicSource, WantedTopics, read_sources
from breakglass.services.pipeline.stored_segments import (
    StoredSegment,
    runs_between,
    stored_segments,
)
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.manifest import TopicManifest
from breakglass.services.topic_backup.summary import PartitionSummary


@dataclass(slots=True)
class PartitionVerified:
    """The comparison of one partition."""

    partition: int
    start: int
    end: int
    """The compared offsets are ``[start, end)``."""
    equal: int = 0
    bytes: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Differences by kind: ``missing`` from the topic, ``extra`` in it, ``different``."""
    offsets: dict[str, list[int]] = field(default_factory=dict)
    expired: int = 0
    """Records of the backup before the log start of the topic."""

    def add(self, found: Differences) -> None:
        self.equal += found.equal
        self.bytes += found.bytes
        for kind, count in found.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
            listed = self.offsets.setdefault(kind, [])
            listed += found.offsets[kind][: LISTED - len(listed)]


@dataclass(slots=True)
class ContentVerified:
    """The comparison of a topic with its backup."""

    topic: str
    against: str
    compacted: bool
    """Compaction may have removed records that are missing from the topic."""
    partitions: list[PartitionVerified] = field(default_factory=list)
    declared: dict[str, int] = field(default_factory=dict)
    """Records that a restore could not keep exactly, by the difference; they count as equal."""
    seconds: float = 0.0

    def total(self, kind: str) -> int:
        return sum(partition.counts.get(kind, 0) for partition in self.partitions)

    @property
    def equal(self) -> int:
        return sum(partition.equal for partition in self.partitions)

    @property
    def identical(self) -> bool:
        """Whether the topic has every record of the backup that it can still have, and no other."""
        kinds = ("extra", "different") if self.compacted else ("missing", "extra", "different")
        return not any(self.total(kind) for kind in kinds)


@jvm_errors("comparing records")
def verify_content(
    run: BackupRun, folder: Folder, manifest: TopicManifest, against: str
) -> ContentVerified:
    """Compare the backup in *folder* with the topic *against*, offset by offset.

    Raises:
        UsageError: the topic does not exist, or one of its partitions cannot be read.
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    deadline = Deadline.after(patience.JOB)
    (source,) = read_sources(run.client, WantedTopics((against,)), deadline)
    for number, reason in source.unread.items():
        raise UsageError(f"{against}-{number} cannot be read ({reason}): verify it later.")
    work = _Work(run, source, folder, manifest)
    found = ContentVerified(manifest.identity.topic, against, source.compacted)
    found.partitions = work.compared()
    found.seconds = run.meter.seconds
    return found


class _Work:
    def __init__(
        self, run: BackupRun, source: TopicSource, folder: Folder, manifest: TopicManifest
    ) -> None:
        self._run = run
        self._identity = source.identity
        self._sources = {
            partition.partition.partition: partition for partition in source.partitions
        }
        self._held = {partition.partition: partition for partition in manifest.partitions}
        self._stored = {
            number: stored_segments(folder, summary.segments)
            for number, summary in self._held.items()
        }

    def compared(self) -> list[PartitionVerified]:
        found = {number: self._begun(summary) for number, summary in sorted(self._held.items())}
        ranges = {
            number: (partition.start, partition.end)
            for number, partition in found.items()
            if partition.start < partition.end
        }
        self._run.meter.total = sum(end - start for start, end in ranges.values())
        sides = TopicSides(self._identity, self._sources, self._stored)
        answers = compare_topic(self._run, sides, ranges)
        for number, partition in found.items():
            own = [answer for answer in answers if answer.partition == number]
            for difference in own:
                partition.add(difference)
            end = self._held[number].next_offset or 0
            partition.add(unseen(self._stored[number], own, number, partition.start, end))
        return list(found.values())

    def _begun(self, held: PartitionSummary) -> PartitionVerified:
        """The offsets of a partition to compare, with the number of expired records."""
        stored = self._stored[held.partition]
        source = self._sources.get(held.partition)
        next_offset = held.next_offset or 0
        if source is None:
            return PartitionVerified(held.partition, 0, 0)
        begins = min((segment.first_offset for segment in stored), default=next_offset)
        start = max(begins, source.log_start)
        end = max(start, min(next_offset, source.stable_end))
        one = PartitionVerified(held.partition, start, end)
        one.expired = len(_offsets(stored, 0, source.log_start))
        return one


def unseen(
    stored: Sequence[StoredSegment],
    found: Sequence[Differences],
    partition: int,
    start: int,
    end: int,
) -> Differences:
    """Stored records of ``[start, end)`` that no task saw: before, between or after its records."""
    differences = Differences(partition)
    at = start
    seen = sorted(
        (difference for difference in found if difference.first >= 0),
        key=lambda difference: difference.first,
    )
    for difference in seen:
        differences.note("missing", _offsets(stored, at, min(difference.first, end)))
        at = max(at, difference.last + 1)
    differences.note("missing", _offsets(stored, at, end))
    return differences


def _offsets(stored: Sequence[StoredSegment], start: int, end: int) -> list[int]:
    runs = runs_between(stored, start, end) if start < end else ()
    return [int(offset) for run in runs for offset in run.offsets]
