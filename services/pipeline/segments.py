"""From the parts of one copy to segments with their gaps and leader epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from services.model import EpochHistory, Unknown
from services.pipeline.committed_log import CommittedLog
from services.pipeline.gaps import Span, explained, missing_within, together
from services.topic_backup.addition import Missing, NewSegment
from services.topic_backup.folder import Folder
from services.topic_backup.part import SegmentPart
from services.topic_backup.summary import MAX_GAPS, EpochStart, Gap


def holes(folder: Folder, parts: Sequence[SegmentPart], start: int, end: int) -> Iterator[Span]:
    """The offsets of ``[start, end)`` that *parts*, in order, have no record of."""
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
    """A segment for each of *parts* with the *gaps* before and in it, and what is missing behind.

    *gaps* are in order.
    """
    held: list[list[Gap]] = [[] for _ in range(len(parts) + 1)]
    at = 0
    for gap in gaps:
        while at < len(parts) and parts[at].last_offset < gap.start:
            at += 1
        held[at].append(gap)
    segments = [
        NewSegment(part, missing(some), epoch_starts(part, epochs))
        for part, some in zip(parts, held[:-1], strict=True)
    ]
    return segments, missing(held[-1])


def missing(gaps: Iterable[Gap]) -> Missing:
    """The *gaps*, the first of them listed and all of them counted."""
    listed: list[Gap] = []
    counts: dict[str, int] = {}
    for gap in together(gaps):
        if len(listed) < MAX_GAPS:
            listed.append(gap)
        counts[gap.reason.value] = counts.get(gap.reason.value, 0) + gap.end - gap.start
    return Missing(tuple(listed), counts)


def epoch_starts(part: SegmentPart, epochs: EpochHistory | Unknown) -> tuple[EpochStart, ...]:
    """The leader epochs that wrote *part*, as far as the history goes back."""
    if isinstance(epochs, Unknown):
        return ()
    within = [
        one
        for one in epochs.ranges
        if one.end > part.first_offset and one.start <= part.last_offset
    ]
    return tuple(EpochStart(one.epoch, max(one.start, part.first_offset)) for one in within)


def found_gaps(
    folder: Folder,
    parts: Sequence[SegmentPart],
    start: int,
    end: int,
    log: CommittedLog,
    *,
    compacted: bool,
) -> list[Gap]:
    """Why offsets of ``[start, end)`` are not in *parts*. Raises as `explained`."""
    spans = list(holes(folder, parts, start, end))
    return list(explained(log, spans, compacted=compacted)) if spans else []
