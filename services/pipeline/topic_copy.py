"""Copies stretches of one topic into parts, from where its logs begin by now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from services.errors import ClusterError, LogBeginsLater, UsageError
from services.kafka.wire.deadline import Deadline
from services.pipeline.backup_context import BackupRun, repeating
from services.pipeline.batches.log_range import Ranges, divided, range_of
from services.pipeline.batches.tasks import copy_by_tasks
from services.pipeline.committed_log import CommittedLog
from services.pipeline.gaps import found_gaps, new_segments
from services.pipeline.part_writer import PartTarget
from services.pipeline.report import PartitionReport, TopicReport
from services.pipeline.resume_point import CopyStretch, cut_since, end_epoch
from services.pipeline.session import jvm_errors
from services.pipeline.source import PartitionSource, TopicSource, WantedTopics, read_sources
from services.topic_backup.addition import Addition, Missing, NewSegment
from services.topic_backup.assembling import Assembler
from services.topic_backup.manifest import TopicIdentity
from services.topic_backup.part import SegmentPart, part_index_of, run_place_of
from services.topic_backup.segment_index import ENTRY
from services.topic_backup.summary import EpochStart, Gap, GapReason

ASK_SECONDS = 60.0
WATCH_SECONDS = 0.5
WATCH_STORE_SECONDS = 5.0
"""Where each look is a request, or many."""
ATTEMPTS = 5
"""How often a range is begun again because retention overtook the reader."""


@dataclass(slots=True)
class RangeCopy:
    """Writes parts for the backup of one topic."""

    run: BackupRun
    identity: TopicIdentity
    """Of the topic."""
    assembler: Assembler

    @property
    def topic(self) -> str:
        return self.identity.topic

    def copy(self, job: Sequence[CopyStretch]) -> tuple[list[CopyStretch], list[SegmentPart]]:
        """The parts of *job*, which may begin later than asked where retention was faster.

        Raises:
            StorageError: nothing more can be written.
            PipelineError, ClusterError, Unreachable: the topic cannot be read.
        """
        stretches = list(job)
        for _ in range(ATTEMPTS):
            try:
                return stretches, self._parts(stretches)
            except LogBeginsLater:
                stretches = self._overtaken(stretches)
        return stretches, self._parts(stretches)

    def now(self, stretches: Iterable[CopyStretch]) -> TopicSource | None:
        """The topic and the partitions of *stretches* as they are now; None when it is gone."""
        deadline, numbers = Deadline.after(ASK_SECONDS), {one.number for one in stretches}
        try:
            return read_sources(self.run.client, WantedTopics((self.topic,)), deadline, numbers)[0]
        except UsageError:
            return None

    def log(self, one: CopyStretch) -> CommittedLog:
        """The log that *one* is of, for reading it without Spark."""
        return CommittedLog(self.run.client.sender, one.source.leader, one.source.partition)

    def _parts(self, job: Sequence[CopyStretch]) -> list[SegmentPart]:
        some = [one for one in job if one.offsets]
        if not some:
            return []
        with jvm_errors(f"reading topic {self.topic}"):
            cores = self.run.cores()
            whole = [range_of(self.identity, one.source, one.start, one.end) for one in some]
            ranges = divided(whole, cores)
            target = self.target(min(cores, len(ranges)))
            with self._watching(target, {one.number: (one.start, one.end) for one in some}):
                cluster_id = self.identity.cluster_id
                found = copy_by_tasks(self.run, ranges, cluster_id, {self.topic: target})
        return found.get(self.topic, [])

    @contextmanager
    def _watching(self, target: PartTarget, ranges: Ranges) -> Iterator[None]:
        """Tell how far the job that runs within is, by what it has written."""
        original = target.folder.original
        written = _indexed if original else _finished
        seconds = WATCH_SECONDS if original else WATCH_STORE_SECONDS
        with repeating(lambda: self.run.meter.say(self.topic, written(target, ranges)), seconds):
            yield

    def target(self, tasks: int = 1) -> PartTarget:
        """Where the parts of one more job go, of so many *tasks* at a time."""
        how = self.run.settings
        share = None if how.bytes_per_second is None else how.bytes_per_second / tasks
        credit = 0.0 if self.run.budget is None else self.run.budget.credit() / tasks
        folder, run = self.assembler.folder, self.assembler.run
        return PartTarget(folder, run, how.max_segment_bytes, share, credit, how.records_crc)

    def _overtaken(self, job: Sequence[CopyStretch]) -> list[CopyStretch]:
        """The same *job* from where the logs begin by now (B3)."""
        topic = self.now(job)
        now = {one.partition: one for one in topic.partitions} if topic else {}
        return [_begun_later(one, now.get(one.source.partition)) for one in job]


def _indexed(target: PartTarget, _: Ranges) -> int:
    """Records written, by the size of the indexes, which grow."""
    folder = target.folder
    indexes = [one for one in folder.names() if part_index_of(one, target.run) is not None]
    return sum(folder.size(name) or 0 for name in indexes) // ENTRY.size


def _finished(target: PartTarget, ranges: Ranges) -> int:
    """Offsets copied, about: a file is there once it is whole, and the next one has begun."""
    reached = {number: start for number, (start, _) in ranges.items()}
    for name in target.folder.names():
        place = run_place_of(name, target.run)
        if place is not None and place[0] in reached:
            reached[place[0]] = max(place[1], reached[place[0]])
    return sum(at - ranges[number][0] for number, at in reached.items())


def _begun_later(one: CopyStretch, now: PartitionSource | None) -> CopyStretch:
    if now is None or now.log_start <= one.start:
        return one
    start = min(now.log_start, one.end)
    lost = Gap(one.lost.start if one.lost else one.start, start, GapReason.LOST)
    return replace(one, start=start, lost=lost)


@dataclass(frozen=True, slots=True)
class CopiedStretch:
    """What became of one stretch, before it is put in place."""

    stretch: CopyStretch
    segments: list[NewSegment]
    behind: Missing

    @property
    def end_epoch(self) -> int | None:
        """The leader epoch that wrote the end of the stretch, as it was before the copy."""
        return end_epoch(self.stretch.source.epochs, self.stretch.end)

    @property
    def addition(self) -> Addition:
        """What becomes of it in the backup."""
        stretch = self.stretch
        return Addition(stretch.number, self.segments, self.behind, stretch.end, self.end_epoch)

    def epochs(self) -> Iterator[EpochStart]:
        """Offsets of it with the epochs that wrote them."""
        for segment in self.segments:
            yield from segment.epochs
        if self.end_epoch is not None:
            yield EpochStart(self.end_epoch, self.stretch.end - 1)


class TopicCopy:
    """One topic under way."""

    def __init__(
        self, run: BackupRun, source: TopicSource, assembler: Assembler, report: TopicReport
    ) -> None:
        self._run = run
        self._source = source
        self._assembler = assembler
        self._ranges = RangeCopy(run, source.identity, assembler)
        self._reports = {one.partition: one for one in report.partitions}

    def copy(self, job: Sequence[CopyStretch]) -> list[SegmentPart]:
        """Copy *job*, and commit it if the topic is still the one that was read; its parts.

        Raises:
            ClusterError: it is not; nothing of *job* was committed.
            StorageError, PipelineError, Unreachable: as `RangeCopy.copy`.
        """
        stretches, parts = self._ranges.copy(job)
        self.take(stretches, parts)
        return parts

    def take(self, stretches: Sequence[CopyStretch], parts: Sequence[SegmentPart]) -> None:
        """Commit *parts*, which hold the *stretches* from end to end. Raises as `copy`."""
        copied = [
            self._explained(one, [part for part in parts if part.partition == one.number])
            for one in stretches
        ]
        self._require_same(copied)
        self._assembler.add([one.addition for one in copied])
        if self._assembler.changed:
            self._assembler.commit()
        for one in copied:
            self._report(one)
        size = sum(part.records_bytes for part in parts)
        if self._run.budget is not None:
            self._run.budget.spend(size)
        self._run.meter.count(self._source.name, sum(one.offsets for one in stretches), size)

    def target(self) -> PartTarget:
        """Where parts for `take` are to be written."""
        return self._ranges.target()

    def _explained(self, one: CopyStretch, parts: Sequence[SegmentPart]) -> CopiedStretch:
        """The parts of one partition, with the reasons of all that is missing."""
        folder, log = self._assembler.folder, self._ranges.log(one)
        compacted = self._source.compacted
        gaps = found_gaps(folder, parts, one.start, one.end, log, compacted=compacted)
        segments, behind = new_segments(
            parts, [one.lost, *gaps] if one.lost else gaps, one.source.epochs
        )
        return CopiedStretch(one, segments, behind)

    def _require_same(self, copied: Sequence[CopiedStretch]) -> None:
        """Return if what was copied is still the topic's log (B2).

        Raises:
            ClusterError: the topic was deleted or created anew, or its log was cut.
        """
        now = self._ranges.now(one.stretch for one in copied)
        if now is None or now.identity.topic_id != self._source.identity.topic_id:
            raise ClusterError(
                f"topic {self._source.name} was deleted or created anew while it was copied, so "
                "this copy was not committed: run the backup again"
            )
        logs = {one.partition: one for one in now.partitions}
        for one in copied:
            partition = one.stretch.source.partition
            log = logs.get(partition)
            reason = cut_since(one.stretch.end, one.epochs(), log) if log else ""
            if reason:
                raise ClusterError(f"{partition}: {reason}; run the backup again")

    def _report(self, copied: CopiedStretch) -> None:
        report: PartitionReport = self._reports[copied.stretch.source.partition]
        report.end = copied.stretch.end
        report.records += sum(one.part.count for one in copied.segments)
        report.bytes += sum(one.part.records_bytes for one in copied.segments)
        for missing in (*(one.before for one in copied.segments), copied.behind):
            for reason, count in missing.counts.items():
                report.missing[reason] = report.missing.get(reason, 0) + count
