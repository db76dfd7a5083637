"""Copies and commits one topic: copies parts, explains missing offsets, checks the log, commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    ClusterError,
    EvidenceChanged,
    LogBeginsLater,
    PipelineError,
    UsageError,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import EpochHistory, Unknown
from breakglass.services.pipeline.backup_context import (
    BackupRun,
    PartitionReport,
    TopicReport,
    repeating,
)
from breakglass.services.pipeline.batches.tasks import copy_by_tasks, divided, range_of
from breakglass.services.pipeline.committed_log import CommittedBatch, CommittedLog
from breakglass.services.pipeline.part_writer import PartTarget
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import (
    TO_BE_COPIED,
    CopyStretch,
    TopicSource,
    WantedTopics,
    cut_since,
    end_epoch,
    lost_deletions,
    read_sources,
    unseen_cut,
)
from breakglass.services.topic_backup.assembler import Assembler
from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.notes import Unsaid, note_unsaid
from breakglass.services.topic_backup.part import (
    Addition,
    Missing,
    NewSegment,
    SegmentPart,
    part_index_of,
    run_place_of,
)
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.summary import (
    EpochStart,
    Gap,
    GapReason,
    LogLook,
    Unproved,
    added,
    listed,
)
from breakglass.services.words.moments import time_text

EXPLAINED_BYTES = 256 * 1024 * 1024
"""The bytes of a log that are read again to explain the gaps of one copy; further gaps stay
unknown."""
FAR_OFFSETS = 5_000
"""Spans further apart than this are looked up separately."""
ENTRIES_AT_ONCE = 64 * 1024
"""Index entries that are read at a time."""

Span = tuple[int, int]
"""Offsets ``[start, end)``."""


def missing_within(folder: Folder, part: SegmentPart) -> list[Span]:
    """The offsets without a record in *part*, whose index is in *folder*."""
    if part.count == part.last_offset - part.first_offset + 1:
        return []
    spans: list[Span] = []
    last = part.first_offset
    where = folder.where(part.index)
    with folder.open(part.index) as file, storage_errors(where):
        file.seek(FIRST_POSITION)
        while some := file.read(ENTRIES_AT_ONCE * ENTRY.size):
            entries = np.frombuffer(some, ">i8")[:: ENTRY.size // 8]
            offsets = np.append(last, entries.astype(np.int64))
            before = np.flatnonzero(np.diff(offsets) > 1)
            spans += [(int(offsets[at]) + 1, int(offsets[at + 1])) for at in before]
            last = int(offsets[-1])
    return spans


def explained(
    log: CommittedLog, spans: Sequence[Span], *, compacted: bool, unread: list[Gap] | None = None
) -> Iterator[Gap]:
    """The *spans*, in order, as gaps with their reasons; one span may become several gaps.

    Those that were not looked up are also added to *unread*.

    Raises:
        PipelineError: the log has a committed record at an offset that was not copied.
        ClusterError, Unreachable: the leader cannot be read.
    """
    nothing = GapReason.COMPACTION if compacted else GapReason.UNKNOWN
    for near in _neighbours(spans):
        try:
            if log.read_bytes <= EXPLAINED_BYTES:
                yield from list(_explain(log, near, nothing))
                continue
        except EvidenceChanged:
            # Retention has deleted the offsets since they were copied: the reason is lost.
            pass
        gaps = [Gap(*span, GapReason.UNKNOWN) for span in near]
        if unread is not None:
            unread += gaps
        yield from gaps


def _neighbours(spans: Sequence[Span]) -> Iterator[Sequence[Span]]:
    """The *spans* in groups that are close enough for one read."""
    first = 0
    for index in range(1, len(spans) + 1):
        if index == len(spans) or spans[index][0] - spans[index - 1][1] > FAR_OFFSETS:
            yield spans[first:index]
            first = index


def _explain(log: CommittedLog, spans: Sequence[Span], nothing: GapReason) -> Iterator[Gap]:
    """The gaps of *spans*, from one read of the log from the first span to the last."""
    holes = _Holes(spans)
    at, end = spans[0][0], spans[-1][1]
    for batch in log.batches(at, end):
        header = batch.header
        for hole in holes.within(at, header.base_offset):
            yield Gap(*hole, nothing)
        for hole in holes.within(max(at, header.base_offset), header.next_offset):
            yield Gap(*hole, _reason(batch, log, hole[0]))
        at = max(at, header.next_offset)
    for hole in holes.within(at, end):
        yield Gap(*hole, nothing)


class _Holes:
    """Spans that are consumed from the lowest offset to the highest."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._next = 0

    def within(self, start: int, end: int) -> Iterator[Span]:
        """The parts of the spans within ``[start, end)``."""
        while self._next < len(self._spans) and self._spans[self._next][0] < end:
            span = self._spans[self._next]
            low, high = max(span[0], start), min(span[1], end)
            if low < high:
                yield low, high
            if span[1] > end:
                return
            self._next += 1


def _reason(batch: CommittedBatch, log: CommittedLog, offset: int) -> GapReason:
    header = batch.header
    if header.control:
        return GapReason.CONTROL
    if batch.aborted:
        return GapReason.ABORTED
    if header.count == header.next_offset - header.base_offset:
        raise PipelineError(
            f"{log.where} has a committed record at offset {offset} that was not delivered, so "
            "this run committed nothing: run the backup again"
        )
    # Only compaction removes records from a batch.
    return GapReason.COMPACTION


def merged_gaps(gaps: Iterable[Gap]) -> Iterator[Gap]:
    """The *gaps*; adjacent gaps with the same reason become one gap."""
    last: Gap | None = None
    for gap in gaps:
        if last and last.end == gap.start and last.reason is gap.reason:
            last = Gap(last.start, gap.end, last.reason)
            continue
        if last:
            yield last
        last = gap
    if last:
        yield last


def holes(folder: Folder, parts: Sequence[SegmentPart], start: int, end: int) -> Iterator[Span]:
    """The offsets of ``[start, end)`` without a record in *parts*, which are in order."""
    if not parts:
        yield from [(start, end)] if start < end else []
        return
    if start < parts[0].first_offset:
        yield start, parts[0].first_offset
    yield from missing_within(folder, parts[0])
    for before, after in pairwise(parts):
        if before.last_offset + 1 < after.first_offset:
            yield before.last_offset + 1, after.first_offset
        yield from missing_within(folder, after)
    if parts[-1].last_offset + 1 < end:
        yield parts[-1].last_offset + 1, end


def new_segments(
    parts: Sequence[SegmentPart], gaps: Iterable[Gap], epochs: EpochHistory | Unknown
) -> tuple[list[NewSegment], Missing]:
    """A segment for each of *parts* with its *gaps*, and the offsets missing after the last part.

    *gaps* are in order; each belongs to the first part that ends after it.
    """
    by_part: list[list[Gap]] = [[] for _ in range(len(parts) + 1)]
    at = 0
    for gap in gaps:
        while at < len(parts) and parts[at].last_offset < gap.start:
            at += 1
        by_part[at].append(gap)
    segments = [
        NewSegment(part, missing(some), epoch_starts(part, epochs))
        for part, some in zip(parts, by_part[:-1], strict=True)
    ]
    return segments, missing(by_part[-1])


def missing(gaps: Iterable[Gap]) -> Missing:
    """The *gaps*, the first of them listed and all of them counted."""
    merged = list(merged_gaps(gaps))
    counts: dict[str, int] = {}
    for gap in merged:
        counts[gap.reason.value] = counts.get(gap.reason.value, 0) + gap.end - gap.start
    return Missing(listed(merged), counts)


def epoch_starts(part: SegmentPart, epochs: EpochHistory | Unknown) -> tuple[EpochStart, ...]:
    """The leader epochs that wrote *part*, as far as the history reaches."""
    if isinstance(epochs, Unknown):
        return ()
    within = [
        epoch_range
        for epoch_range in epochs.ranges
        if epoch_range.end > part.first_offset and epoch_range.start <= part.last_offset
    ]
    return tuple(
        EpochStart(epoch_range.epoch, max(epoch_range.start, part.first_offset))
        for epoch_range in within
    )


WATCH_SECONDS = 0.5
WATCH_STORE_SECONDS = 5.0
"""How often an object store is polled: each poll is one request or several."""
ATTEMPTS = 5
"""How often a range is restarted because retention overtook the reader."""


class LostDeletions(ClusterError):
    """Keys in the backup may have been deleted: the topic is copied again as a whole."""


@dataclass(frozen=True, slots=True)
class CopiedStretch:
    """A copied stretch that is not committed yet."""

    stretch: CopyStretch
    segments: list[NewSegment]
    behind: Missing
    reasons: frozenset[GapReason] = frozenset()
    """Why the log lacks offsets, as far as it was looked up."""
    look: LogLook | None = None
    unproved: tuple[Unproved, ...] = ()

    @property
    def missing(self) -> Sequence[Missing]:
        """The offsets without a record."""
        return [*(segment.before for segment in self.segments), self.behind]

    @property
    def lost(self) -> list[Gap]:
        """The offsets that were removed before they were copied, as far as they are listed."""
        gaps = (gap for missing in self.missing for gap in missing.gaps)
        return [gap for gap in gaps if gap.reason is GapReason.LOST]

    @property
    def end_epoch(self) -> int | None:
        """The leader epoch at the end of the stretch, as known before the copy.

        It is the leader's if the log has no record that could have another one.
        """
        source = self.stretch.source
        if 0 < self.stretch.end == source.log_start == source.high_watermark:
            return source.leader_epoch
        return end_epoch(source.epochs, self.stretch.end)

    @property
    def addition(self) -> Addition:
        stretch = self.stretch
        return Addition(
            stretch.number,
            self.segments,
            self.behind,
            stretch.end,
            self.end_epoch,
            self.look,
            self.unproved,
        )

    def epochs(self) -> Iterator[EpochStart]:
        """Offsets of the stretch with the epochs that wrote them."""
        for segment in self.segments:
            yield from segment.epochs
        if self.end_epoch is not None:
            yield EpochStart(self.end_epoch, self.stretch.end - 1)


class TopicCopy:
    """The copy of one topic."""

    def __init__(
        self, run: BackupRun, source: TopicSource, assembler: Assembler, report: TopicReport
    ) -> None:
        self._run = run
        self._source = source
        self._assembler = assembler
        self._anew: dict[int, int] = {}
        """Where the first copy of a partition ends, by number."""
        self._report_of = report
        self._reports = {partition.partition: partition for partition in report.partitions}

    def copy(self, job: Sequence[CopyStretch]) -> list[SegmentPart]:
        """Copy *job*, and commit it if the topic is still the same; return its parts.

        Raises:
            ClusterError: the topic has changed; nothing of *job* was committed.
            StorageError: the folder cannot be written.
            PipelineError, Unreachable: the topic cannot be read.
        """
        stretches, parts = self._copied(job)
        self.take(stretches, parts)
        return parts

    def take(self, stretches: Sequence[CopyStretch], parts: Sequence[SegmentPart]) -> None:
        """Commit *parts*, which cover the *stretches*. Raises as `copy`."""
        copied = [
            self._explained(stretch, [part for part in parts if part.partition == stretch.number])
            for stretch in stretches
        ]
        copied = [self._with_deletions(copied_stretch) for copied_stretch in copied]
        for at, one in enumerate(copied):
            held = self._assembler.partition(one.stretch.number)
            if doubt := unseen_cut(held, one.stretch.source):
                copied[at] = replace(one, unproved=(*one.unproved, doubt))
        self._require_same(copied)
        self._assembler.add([copied_stretch.addition for copied_stretch in copied])
        known = self._report_of.damages
        known += [one for one in self._assembler.damages if one not in known]
        self._note_unsaid(copied)
        if self._assembler.changed:
            self._assembler.commit()
        for copied_stretch in copied:
            self._report(copied_stretch)
        size = sum(part.records_bytes for part in parts)
        if self._run.budget is not None:
            self._run.budget.spend(size)
        self._run.meter.count(
            self._source.name, sum(stretch.offsets for stretch in stretches), size
        )

    def target(self, tasks: int = 1) -> PartTarget:
        """Where `take` expects the parts of one more job, which runs *tasks* tasks at a time."""
        how = self._run.settings
        share = None if how.bytes_per_second is None else how.bytes_per_second / tasks
        credit = 0.0 if self._run.budget is None else self._run.budget.credit() / tasks
        folder, run = self._assembler.folder, self._assembler.run
        return PartTarget(folder, run, how.max_segment_bytes, share, credit, how.records_crc)

    def _copied(self, job: Sequence[CopyStretch]) -> tuple[list[CopyStretch], list[SegmentPart]]:
        """Copy *job*; return it with its parts. Where retention is faster, it starts later."""
        stretches = list(job)
        for _ in range(ATTEMPTS):
            try:
                return stretches, self._parts(stretches)
            except LogBeginsLater:
                stretches = self._overtaken(stretches)
        return stretches, self._parts(stretches)

    def _now(self, stretches: Iterable[CopyStretch]) -> TopicSource | None:
        """The topic and the partitions of *stretches* now; None if the topic is gone."""
        deadline, numbers = Deadline.after(patience.JOB), {stretch.number for stretch in stretches}
        try:
            return read_sources(
                self._run.client, WantedTopics((self._source.name,)), deadline, numbers
            )[0]
        except UsageError:
            return None

    def _parts(self, job: Sequence[CopyStretch]) -> list[SegmentPart]:
        some = [stretch for stretch in job if stretch.offsets]
        if not some:
            return []
        with jvm_errors(f"reading topic {self._source.name}"):
            cores = self._run.cores()
            whole = [
                range_of(self._source.identity, stretch.source, stretch.start, stretch.end)
                for stretch in some
            ]
            ranges = divided(whole, cores)
            target = self.target(min(cores, len(ranges)))
            name, cluster_id = self._source.name, self._source.identity.cluster_id
            starts = {stretch.number: stretch.start for stretch in some}
            # The progress of the job is known by the files that it has written.
            seconds = WATCH_SECONDS if target.folder.original else WATCH_STORE_SECONDS
            with repeating(lambda: self._run.meter.say(name, _written(target, starts)), seconds):
                found = copy_by_tasks(self._run, ranges, cluster_id, {name: target})
        return found.get(name, [])

    def _overtaken(self, job: Sequence[CopyStretch]) -> list[CopyStretch]:
        """The *job* from the current log starts on (B3)."""
        topic = self._now(job)
        now = {partition.partition: partition for partition in topic.partitions} if topic else {}
        later = []
        for stretch in job:
            log = now.get(stretch.source.partition)
            start = stretch.start if log is None else min(log.log_start, stretch.end)
            if start > stretch.start:
                lost = (*stretch.lost, Gap(stretch.start, start, GapReason.LOST))
                stretch = replace(stretch, start=start, lost=lost)
            later.append(stretch)
        return later

    def _explained(self, stretch: CopyStretch, parts: Sequence[SegmentPart]) -> CopiedStretch:
        folder, source = self._assembler.folder, stretch.source
        log = CommittedLog(self._run.client.sender, source.leader, source.partition)
        compacted = self._source.compacted
        unread: list[Gap] = []
        spans = list(holes(folder, parts, stretch.start, stretch.end))
        gaps = list(explained(log, spans, compacted=compacted, unread=unread)) if spans else []
        segments, behind = new_segments(parts, [*stretch.lost, *gaps], stretch.source.epochs)
        looked_up = gaps if compacted else (gap for gap in gaps if gap not in unread)
        reasons = frozenset(gap.reason for gap in (*stretch.lost, *looked_up))
        return CopiedStretch(stretch, segments, behind, reasons)

    def _with_deletions(self, copied: CopiedStretch) -> CopiedStretch:
        """*copied* with the look at the log that it goes to, and what the time it took may hide.

        Raises LostDeletions: keys in the backup may have been deleted, and their deletions removed.
        """
        source, stretch = self._source, copied.stretch
        held = self._assembler.partition(stretch.number)
        if held.next_offset is None:
            self._anew[stretch.number] = stretch.source.stable_end
        if not source.compacted and stretch.end <= self._anew.get(stretch.number, -1):
            # Every job of a whole copy reads the log as it is.
            return copied
        since = lost_deletions(held, source, copied.reasons, now_ms())
        if since is not None and since != source.look and source.unread:
            # A new generation without those partitions would hide their backup.
            end = max(stretch.end, held.next_offset or 0)
            doubt = Unproved(stretch.source.log_start, end, TO_BE_COPIED)
            return replace(copied, look=held.look, unproved=(doubt,))
        if since is not None and since != source.look:
            if not source.compacted:
                raise LostDeletions(
                    f"{stretch.source.partition} lacks offsets that were written since the last "
                    f"run: if cleanup.policy of {source.name} was compact in that time, deletions "
                    "of keys that the older folder has were removed"
                )
            last = f" at {time_text(since.at_ms)}" if since.at_ms else ""
            raise LostDeletions(
                f"since the last look{last} compaction or retention may have removed deletions of "
                f"keys that the older folder has: see delete.retention.ms of {source.name}"
            )
        doubts: tuple[Unproved, ...] = ()
        if since is not None:
            why = "compaction may have removed deletions of keys while they were copied"
            doubts = (Unproved(stretch.start, stretch.end, why),)
        first = held.next_offset is None
        goes_to_end = first or stretch.end >= stretch.source.stable_end
        return replace(copied, look=source.look if goes_to_end else None, unproved=doubts)

    def _require_same(self, copied: Sequence[CopiedStretch]) -> None:
        """Check that the copied log is still the log of the topic (B2).

        Raises ClusterError: the topic was deleted or recreated, or its log was cut.
        """
        now = self._now(copied_stretch.stretch for copied_stretch in copied)
        if now is None or now.identity.topic_id != self._source.identity.topic_id:
            raise ClusterError(
                f"topic {self._source.name} was deleted or recreated during the copy, so "
                "this copy was not committed: run the backup again"
            )
        logs = {source.partition: source for source in now.partitions}
        for copied_stretch in copied:
            partition = copied_stretch.stretch.source.partition
            log = logs.get(partition)
            reason = (
                cut_since(copied_stretch.stretch.end, copied_stretch.epochs(), log) if log else ""
            )
            if reason:
                raise ClusterError(f"{partition}: {reason}; run the backup again")

    def _note_unsaid(self, copied: Iterable[CopiedStretch]) -> None:
        """Note what this commit makes a part of the backup, and the end of the run tells (B30)."""
        report = self._report_of
        for one in copied:
            self._reports[one.stretch.source.partition].lost += one.lost
            self._reports[one.stretch.source.partition].unproved += one.unproved
        left = Unsaid(
            {part.partition.partition: part.lost for part in report.partitions if part.lost},
            {
                part.partition.partition: part.unproved
                for part in report.partitions
                if part.unproved
            },
            report.new_generation,
            report.other_log,
        )
        if left:
            note_unsaid(self._assembler.folder, left)

    def _report(self, copied: CopiedStretch) -> None:
        report: PartitionReport = self._reports[copied.stretch.source.partition]
        report.end = copied.stretch.end
        report.records += sum(segment.part.count for segment in copied.segments)
        report.bytes += sum(segment.part.records_bytes for segment in copied.segments)
        report.missing = added(report.missing, *(missing.counts for missing in copied.missing))


def _written(target: PartTarget, starts: Mapping[int, int]) -> int:
    """About how many offsets a job has copied, by the files that it has written."""
    folder = target.folder
    if folder.original:
        # Records, by the size of the growing indexes.
        indexes = [name for name in folder.names() if part_index_of(name, target.run) is not None]
        return sum(folder.size(name) or 0 for name in indexes) // ENTRY.size
    reached = dict(starts)
    for name in folder.names():
        # A file appears once it is complete.
        place = run_place_of(name, target.run)
        if place is not None and place[0] in reached:
            reached[place[0]] = max(place[1], reached[place[0]])
    return sum(reached.values()) - sum(starts.values())
