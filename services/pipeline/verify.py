"""Compares a backup with a topic: records that are missing, extra or different, by offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from breakglass.services import patience
from breakglass.services.errors import UsageError
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.tasks import Ranges
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
    found = ContentVerified(manifest.identity.topic, against, source.compacted)
    logs = {log.partition.partition: log for log in source.partitions}
    held = {part.partition: part for part in manifest.partitions}
    stored = {number: stored_segments(folder, part.segments) for number, part in held.items()}
    ranges = dict.fromkeys(held, (0, 0))
    for number, log in logs.items():
        if number in held:
            end = held[number].next_offset or 0
            begins = min((segment.first_offset for segment in stored[number]), default=end)
            start = max(begins, log.log_start)
            ranges[number] = start, max(start, min(end, log.stable_end))
    run.meter.total = sum(end - start for start, end in ranges.values())
    for number, part in sorted(compared(run, source, stored, ranges).items()):
        if number in logs:
            part.expired = len(_offsets(stored[number], 0, logs[number].log_start))
        part.add(unseen(stored[number], (), number, part.end, held[number].next_offset or 0))
        found.partitions.append(part)
    found.seconds = run.meter.seconds
    return found


def compared(
    run: BackupRun,
    topic: TopicSource,
    stored: Mapping[int, Sequence[StoredSegment]],
    ranges: Ranges,
) -> dict[int, PartitionVerified]:
    """The comparison of *ranges* of the topic with the *stored* segments, by partition.

    Raises:
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    logs = {log.partition.partition: log for log in topic.partitions}
    some = {number: (start, end) for number, (start, end) in ranges.items() if start < end}
    answers = compare_topic(run, TopicSides(topic.identity, logs, stored), some)
    found = {number: PartitionVerified(number, *span) for number, span in ranges.items()}
    for number, part in found.items():
        own = [answer for answer in answers if answer.partition == number]
        for answer in (*own, unseen(stored[number], own, number, part.start, part.end)):
            part.add(answer)
    return found


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
