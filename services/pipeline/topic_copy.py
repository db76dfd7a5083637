"""Copies and commits one topic: parts, why offsets are missing, the last look, the commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.errors import ClusterError
from services.pipeline.backup_context import BackupRun
from services.pipeline.part_writer import PartTarget
from services.pipeline.range_copy import RangeCopy
from services.pipeline.report import PartitionReport, TopicReport
from services.pipeline.resume_point import CopyStretch, cut_since, end_epoch
from services.pipeline.segments import found_gaps, new_segments
from services.pipeline.source import TopicSource
from services.topic_backup.addition import Addition, Missing, NewSegment
from services.topic_backup.assembling import Assembler
from services.topic_backup.part import SegmentPart
from services.topic_backup.summary import EpochStart


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
                f"topic {self._source.name} was deleted or created again while it was copied, so "
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
