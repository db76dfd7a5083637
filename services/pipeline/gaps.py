"""The gaps and leader epochs of a copy: the log itself shows why an offset is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from breakglass.services.errors import EvidenceChanged, PipelineError
from breakglass.services.model import EpochHistory, Unknown
from breakglass.services.pipeline.committed_log import CommittedBatch, CommittedLog
from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.part import Missing, NewSegment, SegmentPart
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.summary import EpochStart, Gap, GapReason, listed

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


def found_gaps(
    folder: Folder,
    parts: Sequence[SegmentPart],
    start: int,
    end: int,
    log: CommittedLog,
    *,
    compacted: bool,
    unread: list[Gap],
) -> list[Gap]:
    """The offsets of ``[start, end)`` that *parts* lack, with reasons; as `explained`."""
    spans = list(holes(folder, parts, start, end))
    return list(explained(log, spans, compacted=compacted, unread=unread)) if spans else []
