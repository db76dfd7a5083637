"""Compares a backup with a topic: records that are missing, extra or different, by offset.

Tasks of Spark compare byte by byte. Both sides have the same encoding, so equal stretches are
compared as one piece of memory. Only stretches that differ are compared record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from breakglass.services import patience
from breakglass.services.errors import UsageError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.tasks import (
    LogRange,
    Ranges,
    chunks_in,
    divided,
    range_of,
    run_tasks,
)
from breakglass.services.pipeline.part_writer import RecordChunk
from breakglass.services.pipeline.restore.offset_map import OffsetMap
from breakglass.services.pipeline.restore.task import restored_bytes
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import (
    PartitionSource,
    TopicSource,
    WantedTopics,
    read_sources,
)
from breakglass.services.pipeline.stored_segments import (
    Bytes,
    Longs,
    RecordRun,
    StoredSegment,
    joined,
    runs_between,
    stored_segments,
)
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest
from breakglass.services.topic_backup.summary import added

OFFSET_BYTES, KIND_BYTES = 8, 4
LOG_APPEND = np.array([0, 0, 0, 1], np.uint8)
LISTED = 100
"""The number of differences of each kind that are listed by offset; all are counted."""


@dataclass(slots=True)
class PartitionVerified:
    """The comparison of one partition, or of a stretch of it. All offsets are the backup's."""

    partition: int
    start: int = 0
    end: int = 0
    """The compared offsets are ``[start, end)``; of a stretch, those of its records."""
    equal: int = 0
    bytes: int = 0
    """The size of the topic's records, encoded."""
    counts: dict[str, int] = field(default_factory=dict)
    """Differences by kind: ``missing`` from the topic, ``extra`` in it, ``different``."""
    offsets: dict[str, list[int]] = field(default_factory=dict)
    """The first offsets of each kind."""
    expired: int = 0
    """Records of the backup before the log start of the topic."""

    def note(self, kind: str, offsets: Sequence[int]) -> None:
        """Count *offsets* as differences of one *kind*."""
        if len(offsets):
            self.counts[kind] = self.counts.get(kind, 0) + len(offsets)
            listed = self.offsets.setdefault(kind, [])
            listed.extend(int(offset) for offset in offsets[: LISTED - len(listed)])

    def add(self, found: PartitionVerified) -> None:
        self.equal += found.equal
        self.bytes += found.bytes
        self.counts = added(self.counts, found.counts)
        for kind, offsets in found.offsets.items():
            listed = self.offsets.setdefault(kind, [])
            listed += offsets[: LISTED - len(listed)]


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


class StretchComparison:
    """One stretch of a partition, from its first record to its last."""

    def __init__(
        self,
        partition: int,
        stored: Sequence[StoredSegment],
        offsets: OffsetMap | None = None,
        *,
        alone: bool = True,
    ) -> None:
        """Compare with *stored*; *offsets* is required for a restored topic."""
        self.found = PartitionVerified(partition)
        self._stored = stored
        self._offsets = offsets
        self._alone = alone

    def take(self, chunk: RecordChunk) -> None:
        run = RecordRun(chunk.offsets, chunk.bounds, np.frombuffer(chunk.data, np.uint8))
        if self._offsets is not None:
            olds = self._offsets.old_of(run.offsets)
            if self._alone:
                self.found.note("extra", list(run.offsets[olds < 0]))
            run = as_stored(run, olds)
        if not len(run):
            return
        if self.found.start == self.found.end:
            self.found.start = self.found.end = int(run.offsets[0])
        start, self.found.end = self.found.end, int(run.offsets[-1]) + 1
        self.found.bytes += len(run.data)
        done = 0
        bounds = start, self.found.end
        offsets = self._offsets
        for stored in offsets.expected(*bounds) if offsets else runs_between(self._stored, *bounds):
            upto = int(np.searchsorted(run.offsets, stored.offsets[-1], side="right"))
            if upto > done:
                self._compare(run.cut(done, upto), stored)
            else:
                self.found.note("missing", list(stored.offsets))
            done = upto
        if done < len(run):
            self.found.note("extra", list(run.offsets[done:]))

    def _compare(self, ours: RecordRun, stored: RecordRun) -> None:
        if self._offsets is not None:
            stored = as_create_time(stored)
        if np.array_equal(ours.offsets, stored.offsets) and np.array_equal(ours.data, stored.data):
            self.found.equal += len(ours)
        else:
            # Compare record by record.
            self.found.note("missing", list(np.setdiff1d(stored.offsets, ours.offsets)))
            self.found.note("extra", list(np.setdiff1d(ours.offsets, stored.offsets)))
            both, here, there = np.intersect1d(ours.offsets, stored.offsets, return_indices=True)
            different = [
                int(offset)
                for offset, our, their in zip(both, here, there, strict=True)
                if not self._equal(
                    ours.data[ours.bounds[our] : ours.bounds[our + 1]],
                    stored.data[stored.bounds[their] : stored.bounds[their + 1]],
                )
            ]
            self.found.note("different", different)
            self.found.equal += len(both) - len(different)

    def _equal(self, ours: Bytes, other: Bytes) -> bool:
        if np.array_equal(ours, other):
            return True
        return self._offsets is not None and ours.tobytes() == restored_bytes(other.tobytes())


def as_stored(run: RecordRun, olds: Longs) -> RecordRun:
    """Restored records with their old offsets; foreign records, at -1, are left out."""
    ours = np.flatnonzero(olds >= 0)
    if not len(ours):
        return run.cut(0, 0)
    if len(ours) < len(run):
        breaks = np.flatnonzero(np.diff(ours) > 1) + 1
        pieces = [run.cut(int(some[0]), int(some[-1]) + 1) for some in np.split(ours, breaks)]
        run, olds = joined(pieces), olds[ours]
    data = run.data.copy()
    places = run.bounds[:-1, None] + np.arange(OFFSET_BYTES)
    data[places] = olds.astype(">i8").view(np.uint8).reshape(-1, OFFSET_BYTES)
    return RecordRun(olds, run.bounds, data)


def as_create_time(run: RecordRun) -> RecordRun:
    """Stored records with LogAppendTime as a restore writes them: with CreateTime (B8)."""
    places = run.bounds[:-1, None] + np.arange(OFFSET_BYTES, OFFSET_BYTES + KIND_BYTES)
    stamped = (run.data[places] == LOG_APPEND).all(axis=1)
    if not stamped.any():
        return run
    data = run.data.copy()
    data[places[stamped]] = 0
    return RecordRun(run.offsets, run.bounds, data)


@dataclass(frozen=True, slots=True)
class TopicSides:
    """The two sides of a comparison: a topic and stored segments."""

    topic: TopicIdentity
    sources: Mapping[int, PartitionSource]
    stored: Mapping[int, Sequence[StoredSegment]]
    maps: Mapping[int, OffsetMap] | None = None
    """The offset maps of a restored topic, by partition."""
    alone: bool = True
    """Whether the restore should be the only writer of the topic."""


def compare_range(
    sides: TopicSides, client: ReadClient, wanted: LogRange, attempt: int, seconds: float
) -> Iterator[PartitionVerified]:
    """The differences of one range (a `RangeWork`); every attempt finds the same."""
    del attempt
    number = wanted.partition.partition
    offsets = sides.maps.get(number) if sides.maps else None
    stored = sides.stored.get(number, ())
    comparison = StretchComparison(number, stored, offsets, alone=sides.alone)
    with closing(chunks_in(client, wanted, seconds)) as chunks:
        for chunk in chunks:
            comparison.take(chunk)
    yield comparison.found


def compare_topic(run: BackupRun, sides: TopicSides, ranges: Ranges) -> list[PartitionVerified]:
    """The differences between *ranges* of the topic and the stored segments, by task.

    Raises PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    if not ranges:
        return []
    whole = [
        range_of(sides.topic, sides.sources[number], start, end)
        for number, (start, end) in ranges.items()
    ]
    # Tasks get the segments of these ranges alone.
    own = replace(sides, sources={}, stored={number: sides.stored[number] for number in ranges})
    work = partial(compare_range, own)
    answers = run_tasks(run, divided(whole, run.cores()), sides.topic.cluster_id, work)
    return [stretch for _, stretch in answers]


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

    Raises PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
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
    found: Sequence[PartitionVerified],
    partition: int,
    start: int,
    end: int,
) -> PartitionVerified:
    """Stored records of ``[start, end)`` that no task saw: before, between or after its records."""
    differences = PartitionVerified(partition)
    at = start
    seen = (stretch for stretch in found if stretch.start < stretch.end)
    for stretch in sorted(seen, key=lambda stretch: stretch.start):
        differences.note("missing", _offsets(stored, at, min(stretch.start, end)))
        at = max(at, stretch.end)
    differences.note("missing", _offsets(stored, at, end))
    return differences


def _offsets(stored: Sequence[StoredSegment], start: int, end: int) -> list[int]:
    runs = runs_between(stored, start, end) if start < end else ()
    return [int(offset) for run in runs for offset in run.offsets]
