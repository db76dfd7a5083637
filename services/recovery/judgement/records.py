"""Counts the distinct records of several replicas without reading a record.

What a replica drops is a stretch of its log. Two replicas have the same records from where
both begin to where they diverge, and different records after it. So a stretch minus what earlier
stretches share with it is arithmetic on offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from breakglass.services.model import ReplicaLog, Unknown
from breakglass.services.quick_values import quickly_made

Count = int | Unknown
"""Records; Unknown with the reason where a replica's figures do not allow to count."""

Parting = Callable[[ReplicaLog, ReplicaLog], int | Unknown]
"""Where two replicas diverge."""


class LogStretch(NamedTuple):
    """The records of one replica at the offsets ``[start, end)``."""

    replica: ReplicaLog
    start: int
    end: int


@quickly_made
@dataclass(frozen=True, slots=True)
class RecordCounts:
    """A number of distinct records, and how many of them are proved to be committed.

    A high watermark proves what lies below it. What lies above every one that was heard may be
    committed too: a follower's high watermark is always behind (R29).
    """

    total: Count
    committed: Count
    unproven: Count
    """Of the others it is not known whether they are committed."""

    def __add__(self, other: RecordCounts) -> RecordCounts:
        """Together with *other*, which shares no record with this."""
        return RecordCounts(
            add(self.total, other.total),
            add(self.committed, other.committed),
            add(self.unproven, other.unproven),
        )


NO_RECORDS = RecordCounts(0, 0, 0)


def unknown_records(why: Unknown) -> RecordCounts:
    """Records that cannot be counted."""
    return RecordCounts(why, why, why)


def add(count: Count, other: Count) -> Count:
    """The sum of two counts, Unknown as soon as one is."""
    if isinstance(count, Unknown):
        return count
    return other if isinstance(other, Unknown) else count + other


def count_distinct(stretches: Sequence[LogStretch], parting: Parting) -> Count:
    """How many distinct records there are in *stretches* together."""
    total = 0
    for place, stretch in enumerate(stretches):
        shared = shared_with(stretch, stretches[:place], parting)
        if isinstance(shared, Unknown):
            return shared
        total += sum(end - start for start, end in without(stretch, shared))
    return total


def without(stretch: LogStretch, shared: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The offsets of *stretch* outside *shared*, both in ascending order."""
    reached = stretch.start
    for start, end in shared:
        if reached < start:
            yield reached, start
        reached = max(reached, end)
    if reached < stretch.end:
        yield reached, stretch.end


def shared_with(
    stretch: LogStretch, counted: Sequence[LogStretch], parting: Parting
) -> list[tuple[int, int]] | Unknown:
    """The offsets of *stretch* whose records are among *counted*, in ascending order."""
    shared: list[tuple[int, int]] = []
    for other in counted:
        start, end = max(stretch.start, other.start), min(stretch.end, other.end)
        if start >= end:
            continue
        parted = parting(stretch.replica, other.replica)
        if isinstance(parted, Unknown):
            return parted
        if start < parted:
            shared.append((start, min(end, parted)))
    shared.sort()
    return shared


def split_at_high_watermarks(stretches: Sequence[LogStretch], parting: Parting) -> RecordCounts:
    """Count *stretches*; a record is proved committed if a holder's high watermark is above it.

    Where a high watermark is Unknown and decides, the split is Unknown and the total is not.
    """
    if not stretches:
        return NO_RECORDS
    if len(stretches) == 1:
        return split_one(stretches[0])
    total = count_distinct(stretches, parting)
    settled = [
        _below(stretch) for stretch in stretches if isinstance(stretch.replica.high_watermark, int)
    ]
    committed = count_distinct(settled, parting)
    if isinstance(total, Unknown) or isinstance(committed, Unknown):
        return RecordCounts(total, committed, committed)
    for stretch in stretches:
        mark = stretch.replica.high_watermark
        if isinstance(mark, Unknown) and count_distinct([*settled, stretch], parting) != committed:
            return RecordCounts(total, mark, mark)
    return RecordCounts(total, committed, total - committed)


def split_one(stretch: LogStretch) -> RecordCounts:
    """Count *stretch* alone."""
    total, mark = stretch.end - stretch.start, stretch.replica.high_watermark
    if isinstance(mark, Unknown):
        return RecordCounts(total, mark, mark)
    committed = max(0, min(stretch.end, mark) - stretch.start)
    return RecordCounts(total, committed, total - committed)


def _below(stretch: LogStretch) -> LogStretch:
    """The part of *stretch* below its replica's high watermark."""
    mark = stretch.replica.high_watermark
    return stretch if isinstance(mark, Unknown) else stretch._replace(end=min(stretch.end, mark))
