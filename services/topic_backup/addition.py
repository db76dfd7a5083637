"""What a job adds to the backup of a partition: new segments, and what is missing around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.segment_reader import MAGIC
from breakglass.services.topic_backup.summary import (
    MAX_GAPS,
    EpochStart,
    Gap,
    PartitionSummary,
    SegmentSummary,
)


@dataclass(frozen=True, slots=True)
class Missing:
    """Offsets between records that are not in the backup."""

    gaps: tuple[Gap, ...] = ()
    """The first `MAX_GAPS` of them."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """All of them by reason."""

    def and_then(self, other: Missing) -> Missing:
        """What is missing in both, *other* behind this."""
        reasons = {**self.counts, **other.counts}
        counts = {one: self.counts.get(one, 0) + other.counts.get(one, 0) for one in reasons}
        return Missing((*self.gaps, *other.gaps)[:MAX_GAPS], counts)


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A part that is to become a segment."""

    part: SegmentPart
    before: Missing = Missing()
    """What is missing before it and between its records."""
    epochs: tuple[EpochStart, ...] = ()
    """Leader epochs from its first record on."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What is to come behind the segments of one partition."""

    partition: int
    segments: Sequence[NewSegment]
    """In order of their offsets."""
    behind: Missing
    """After the last of them."""
    next_offset: int
    """Everything before it is accounted for then."""
    end_epoch: int | None = None
    """Leader epoch that wrote the last of it."""


def placed(
    new: NewSegment, prefix: str, start: int, empty: SegmentSummary | None
) -> SegmentSummary:
    """The segment that *new* becomes at *prefix*; it takes the place of an *empty* one."""
    part, missing = new.part, new.before
    if empty is not None:
        missing = Missing(empty.gaps, empty.missing).and_then(missing)
    return SegmentSummary(
        prefix=prefix,
        start_offset=start,
        records_bytes=part.records_bytes,
        sha256=part.sha256,
        count=part.count,
        first_offset=part.first_offset,
        last_offset=part.last_offset,
        first_timestamp=part.first_timestamp,
        last_timestamp=part.last_timestamp,
        max_timestamp=part.max_timestamp,
        epochs=new.epochs,
        gaps=missing.gaps,
        missing=missing.counts,
    )


def followed_by(one: SegmentSummary, other: SegmentSummary, sha256: str) -> SegmentSummary:
    """The segment *one* with the records of *other* behind its own; *sha256* is that of both."""
    missing = Missing(one.gaps, one.missing).and_then(Missing(other.gaps, other.missing))
    newest = [at for at in (one.max_timestamp, other.max_timestamp) if at is not None]
    known = one.epochs[-1].epoch if one.epochs else None
    return replace(
        one,
        records_bytes=one.records_bytes + other.records_bytes - len(MAGIC),
        sha256=sha256,
        count=one.count + other.count,
        last_offset=other.last_offset,
        last_timestamp=other.last_timestamp,
        max_timestamp=max(newest, default=None),
        epochs=(*one.epochs, *(each for each in other.epochs if each.epoch != known)),
        gaps=missing.gaps,
        missing=missing.counts,
    )


def extended(
    held: PartitionSummary, segments: Sequence[SegmentSummary], new: Addition
) -> PartitionSummary:
    """The partition *held* with *segments*, and what *new* says of the offsets behind them."""
    *others, last = segments
    both = Missing(last.gaps, last.missing).and_then(new.behind)
    last = replace(last, gaps=both.gaps, missing=both.counts)
    same_end = new.end_epoch is None and held.next_offset == new.next_offset
    return PartitionSummary(
        new.partition,
        new.next_offset,
        (*others, last),
        held.batch_log,
        held.end_epoch if same_end else new.end_epoch,
    )
