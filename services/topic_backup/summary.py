"""The figures of a backup: its segments, partitions and missing offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from breakglass.services.record_batches import Record

MAX_GAPS = 100
"""Maximum number of listed gaps of one segment; the offsets of further gaps are only counted:
`listed`."""


class GapReason(StrEnum):
    """Why a backup lacks offsets."""

    COMPACTION = "compaction"
    CONTROL = "control"
    """Transaction markers and other control records, which a backup does not contain."""
    ABORTED = "aborted"
    """Records of aborted transactions, which a read_committed consumer skips."""
    NOT_TAKEN = "not taken"
    """Offsets that the backup was not asked to contain."""
    LOST = "lost"
    """Retention, deletion or an election removed them before they were read."""
    UNKNOWN = "unknown"


EXPECTED = frozenset({GapReason.COMPACTION, GapReason.CONTROL, GapReason.ABORTED})
"""Reasons that leave no record missing for a read_committed consumer."""


def added(*counts: Mapping[str, int]) -> dict[str, int]:
    """The sum of some *counts*, each by its reason."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


@dataclass(frozen=True, slots=True)
class Gap:
    """The offsets ``[start, end)`` are missing."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    start: int
    end: int
    reason: GapReason

    @property
    def offsets(self) -> str:
        """The offsets as text: ``36..99``."""
        return f"{self.start}..{self.end - 1}"


def listed(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """At most `MAX_GAPS` of *gaps*, in order: those that leave a record missing before others."""
    if len(gaps) <= MAX_GAPS:
        return tuple(gaps)
    ranked = sorted(range(len(gaps)), key=lambda at: gaps[at].reason in EXPECTED)
    return tuple(gaps[at] for at in sorted(ranked[:MAX_GAPS]))


@dataclass(frozen=True, slots=True)
class EpochStart:
    """Records from *offset* on were written in leader epoch *epoch*."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """One segment as it was committed."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    prefix: str
    start_offset: int
    """The offset in the segment's name."""
    records_bytes: int
    """Size of the records file, with the magic byte; later bytes are not committed."""
    sha256: str
    """The hash of the committed bytes."""
    count: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp: int | None = None
    """Milliseconds; None if the record has no timestamp."""
    last_timestamp: int | None = None
    max_timestamp: int | None = None
    epochs: tuple[EpochStart, ...] = ()
    """Known leader epochs; the first is the epoch at the segment's start."""
    gaps: tuple[Gap, ...] = ()
    """Missing offsets before, between and after the records; the first `MAX_GAPS` gaps."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """All missing offsets, by reason."""

    @property
    def next_offset(self) -> int | None:
        """The offset after the last record; None without records."""
        return None if self.last_offset is None else self.last_offset + 1


@dataclass(frozen=True, slots=True)
class BatchLogSummary:
    """The committed side file with the state of each batch."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    bytes: int
    sha256: str
    batches: int


UNVOUCHED = "no manifest had their hash, so a byte that had changed would not have been noticed"


@dataclass(frozen=True, slots=True)
class Unproved:
    """The records with offsets in ``[start, end)`` were taken from files that nothing vouches for.

    Their hash says what was taken, not that it was what the topic had: that stays unknown.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    start: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"offsets {self.start}..{self.end - 1}: {self.why}"

    def after(self, others: Sequence[Unproved]) -> tuple[Unproved, ...]:
        """The *others* and this one, which joins the last of them if it continues it."""
        last = others[-1] if others else None
        if last is not None and last.why == self.why and last.start <= self.start <= last.end:
            return (*others[:-1], replace(last, end=max(last.end, self.end)))
        return (*others, self)


@dataclass(frozen=True, slots=True)
class LogLook:
    """A look at the end of a compacted log: later deletions stay in it for some time."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    at_ms: int
    """No deletion that is not backed up was compacted before."""
    tombstones_ms: int
    """How long the topic then kept tombstones: delete.retention.ms."""


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """One partition as it was committed."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    partition: int
    next_offset: int | None
    """All lower offsets are backed up or in a gap; None: nothing was read."""
    segments: tuple[SegmentSummary, ...]
    batch_log: BatchLogSummary | None = None
    end_epoch: int | None = None
    """The leader epoch that wrote the offset before *next_offset*, if known."""
    look: LogLook | None = None
    """Of a compacted topic: the look at the log's end to which the backup goes."""
    unproved: tuple[Unproved, ...] = ()
    """What was taken from files that nothing vouches for. No later commit drops it."""

    @property
    def lost(self) -> tuple[str, ...]:
        """Offsets that were removed before they were read: ``36..99``."""
        gaps = [gap for segment in self.segments for gap in segment.gaps]
        lost = [gap for gap in gaps if gap.reason is GapReason.LOST]
        counted = sum(segment.missing.get(GapReason.LOST, 0) for segment in self.segments)
        unlisted = counted - sum(gap.end - gap.start for gap in lost)
        more = (f"and {unlisted:,} more",) if unlisted > 0 else ()
        return (*(gap.offsets for gap in lost), *more)

    @property
    def first_offset(self) -> int | None:
        """The offset of the first record; None without records."""
        firsts = (one.first_offset for one in self.segments)
        return next((first for first in firsts if first is not None), None)

    @property
    def records_end(self) -> int:
        """The offset behind the last record; 0 without records."""
        return max(((one.last_offset or 0) + 1 for one in self.segments if one.count), default=0)

    def segment(self, start_offset: int) -> SegmentSummary | None:
        return next(
            (segment for segment in self.segments if segment.start_offset == start_offset), None
        )


class SegmentTally:
    """The figures of one segment while it grows."""

    def __init__(self, begun: SegmentSummary | None = None) -> None:
        self.count = begun.count if begun else 0
        self._first_offset = begun.first_offset if begun else None
        self.last_offset = begun.last_offset if begun else None
        self._first_timestamp = begun.first_timestamp if begun else None
        self._last_timestamp = begun.last_timestamp if begun else None
        self._max_timestamp = begun.max_timestamp if begun else None
        self._epochs = list(begun.epochs) if begun else []
        self._gaps = list(begun.gaps) if begun else []
        self._missing = dict(begun.missing) if begun else {}

    def add(self, record: Record, leader_epoch: int | None = None) -> None:
        if self._first_offset is None:
            self._first_offset = record.offset
            self._first_timestamp = record.timestamp
        self.count += 1
        self.last_offset = record.offset
        self._last_timestamp = record.timestamp
        if record.timestamp is not None:
            self._max_timestamp = max(record.timestamp, self._max_timestamp or record.timestamp)
        if leader_epoch is not None and leader_epoch != (
            self._epochs[-1].epoch if self._epochs else None
        ):
            self._epochs.append(EpochStart(leader_epoch, record.offset))

    def skip(self, gap: Gap) -> None:
        size = gap.end - gap.start
        self._missing[gap.reason] = self._missing.get(gap.reason, 0) + size
        last = self._gaps[-1] if self._gaps else None
        if last and last.end == gap.start and last.reason == gap.reason:
            self._gaps[-1] = Gap(last.start, gap.end, gap.reason)
        elif len(self._gaps) < MAX_GAPS:
            self._gaps.append(gap)

    def summary(
        self, prefix: str, start_offset: int, records_bytes: int, sha256: str
    ) -> SegmentSummary:
        return SegmentSummary(
            prefix=prefix,
            start_offset=start_offset,
            records_bytes=records_bytes,
            sha256=sha256,
            count=self.count,
            first_offset=self._first_offset,
            last_offset=self.last_offset,
            first_timestamp=self._first_timestamp,
            last_timestamp=self._last_timestamp,
            max_timestamp=self._max_timestamp,
            epochs=tuple(self._epochs),
            gaps=tuple(self._gaps),
            missing=dict(self._missing),
        )
