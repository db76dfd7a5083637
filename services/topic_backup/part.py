"""Describes the segments that a task has written and that are not committed yet.

Tasks can be retried or run twice, so each attempt writes its own files under names that readers
ignore. The files of one attempt become segments; the next writer removes the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from breakglass.services.topic_backup.folder import TEMPORARY
from breakglass.services.topic_backup.layout import (
    records_name,
    segment_index_name,
    segment_of,
    segment_prefix,
)
from breakglass.services.topic_backup.segment_reader import MAGIC
from breakglass.services.topic_backup.summary import (
    EpochStart,
    Gap,
    LogLook,
    PartitionSummary,
    SegmentSummary,
    Unproved,
    added,
    listed,
)


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """One complete and durable part. It has at least one record."""

    partition: int
    records: str
    """The name of its records file in the topic's folder."""
    index: str
    count: int
    first_offset: int
    last_offset: int
    first_timestamp: int
    """Milliseconds since 1970, as in the record; likewise below."""
    last_timestamp: int
    max_timestamp: int
    records_bytes: int
    """Size of the records file, magic byte included."""
    sha256: str
    records_crc: int | None = None
    """CRC-32 of the records without the magic byte; None if it was not requested."""


def part_names(run: str, attempt: int, partition: int, number: int) -> tuple[str, str]:
    """The names of a part's records file and index; *attempt* is unique within *run*."""
    before, after = TEMPORARY
    stem = f"{before}{run}-{attempt}-{partition}-{number}"
    return f"{stem}-records{after}", f"{stem}-index{after}"


def part_index_of(name: str, run: str) -> int | None:
    """The partition if *name* is the index of a part of *run*; None for any other file."""
    before, after = TEMPORARY
    start = f"{before}{run}-"
    if not (name.startswith(start) and name.endswith(f"-index{after}")):
        return None
    return int(name.removeprefix(start).split("-")[1])


def run_folder(commit: int, token: str) -> str:
    """The prefix of the folders of one job whose files keep their names; for that *commit*."""
    return f"run-{commit:010d}-{token}"


def run_part_names(run: str, attempt: int, partition: int, first_offset: int) -> tuple[str, str]:
    """The names of a part in a run's folder, where it becomes a segment without being renamed."""
    prefix = f"{run}-{attempt}/{segment_prefix(partition, first_offset)}"
    return records_name(prefix), segment_index_name(prefix)


def run_place_of(name: str, run: str) -> tuple[int, int] | None:
    """The partition and first offset of the index *name* of *run*; None for any other file."""
    folder, _, file = name.partition("/")
    if not folder.startswith(f"{run}-"):
        return None
    segment = segment_of(file)
    return segment[:2] if segment is not None and segment[2] == "index" else None


@dataclass(frozen=True, slots=True)
class Missing:
    """Offsets between records that are not in the backup."""

    gaps: tuple[Gap, ...] = ()
    """The first `MAX_GAPS` gaps."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """All missing offsets, by reason."""

    def and_then(self, other: Missing) -> Missing:
        """Both sets of missing offsets, *other* after this one."""
        return Missing(listed((*self.gaps, *other.gaps)), added(self.counts, other.counts))


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A part that will become a segment."""

    part: SegmentPart
    before: Missing = Missing()
    """Missing offsets before it and between its records."""
    epochs: tuple[EpochStart, ...] = ()
    """Leader epochs from its first record on."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What a job appends to one partition."""

    partition: int
    segments: Sequence[NewSegment]
    """In offset order."""
    behind: Missing
    """Missing offsets after the last segment."""
    next_offset: int
    """All offsets below it are accounted for after the addition."""
    end_epoch: int | None = None
    """The leader epoch that wrote the last offset."""
    look: LogLook | None = None
    """The look at the log's end, if the addition goes to that end."""
    unproved: tuple[Unproved, ...] = ()
    """What may not be as it was in the topic."""


def placed(
    new: NewSegment, prefix: str, start: int, empty: SegmentSummary | None
) -> SegmentSummary:
    """The segment that *new* becomes at *prefix*; it replaces an *empty* segment."""
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
    """The segment *one* with the records of *other* appended; *sha256* is the hash of both."""
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
    """The partition *held* with *segments* and the missing offsets of *new* after them."""
    *others, last = segments
    both = Missing(last.gaps, last.missing).and_then(new.behind)
    last = replace(last, gaps=both.gaps, missing=both.counts)
    same_end = new.end_epoch is None and held.next_offset == new.next_offset
    return replace(
        held,
        next_offset=new.next_offset,
        segments=(*others, last),
        end_epoch=held.end_epoch if same_end else new.end_epoch,
        look=_look(held, new),
        unproved=reduce(lambda all_of, one: one.after(all_of), new.unproved, held.unproved),
    )


HOUR_MS = 3_600_000


def _look(held: PartitionSummary, new: Addition) -> LogLook | None:
    """The look that is kept; an older one is as good where nothing was added to the log.

    It is replaced in time, so that deletions stay known to be there.
    """
    old = held.look
    if old is None or new.look is None or held.next_offset != new.next_offset:
        return new.look or old
    aged = new.look.at_ms - old.at_ms > max(old.tombstones_ms // 2, HOUR_MS)
    return new.look if aged or new.look.tombstones_ms != old.tombstones_ms else old
