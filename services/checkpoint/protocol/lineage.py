"""What records' origins tell of a cut: how far to lower it, and what is in transit over it.

Partitions are read and written by members that stamp each record they write with the record that
led to it. Everything here is a pure function of such records and of offsets; all offsets are
exclusive ends. Found by experiment on Kafka: H6 to H8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

Offsets = Mapping[int, int]
"""By the number of the partition."""


@dataclass(frozen=True, slots=True, order=True)
class RecordLineage:
    """The record that led to another, and the how manieth of its outputs that is: its identity."""

    partition: int
    offset: int
    index: int = 0


@dataclass(frozen=True, slots=True)
class Lineage:
    """A record by where it is and what led to it."""

    partition: int
    offset: int
    origin: RecordLineage | None
    """None: it came from outside; nothing led to it."""


@dataclass(frozen=True, slots=True)
class LoweredCut:
    """The greatest consistent cut within the ends that were read."""

    positions: dict[int, int]
    """Of each log: its records before that are in the cut."""
    offsets: dict[int, int]
    """Of the group in each partition: what it processed before that is in the cut."""
    rolled_back: dict[int, int]
    """By how many offsets each log was lowered."""
    rounds: int


def greatest_cut(
    floors: Offsets, ends: Offsets, committed: Offsets, records: Sequence[Lineage]
) -> LoweredCut:
    """Lower *ends* until nothing is in the cut without what led to it (H8).

    What lies below the floors was there before any end was read. So what led to it lies before
    the ends, and was processed: it is in every cut, and does not have to be read.

    Args:
        floors: the ends as they were read first; no log is lowered below them.
        ends: the ends as they were read again, after all of *floors*.
        committed: the group's offsets, read after all of *ends*; of a group that processes at
            least once, only when they have reached *ends*, for its outputs come before its commits.
        records: those in ``[floor, high watermark)`` of each log; others do not matter.
    """
    read = [one for one in records if one.offset >= floors[one.partition]]
    cut, rounds = dict(ends), 0
    while True:
        rounds += 1
        offsets = {one: min(committed.get(one, 0), end) for one, end in cut.items()}
        lowered = _lowered(cut, offsets, read)
        if lowered == cut:
            rolled_back = {one: ends[one] - end for one, end in cut.items()}
            return LoweredCut(cut, offsets, rolled_back, rounds)
        cut = lowered


def _lowered(cut: Offsets, offsets: Offsets, records: Iterable[Lineage]) -> dict[int, int]:
    found = dict(cut)
    for one in records:
        if one.offset < found[one.partition] and not _processed(one.origin, offsets):
            found[one.partition] = one.offset
    return found


def _processed(origin: RecordLineage | None, offsets: Offsets) -> bool:
    return origin is None or origin.offset < offsets.get(origin.partition, 0)


def needed(one: Lineage, ends: Offsets, offsets: Offsets) -> bool:
    """Whether a record counts for any cut within *ends*; what is read of a log is mostly others.

    *offsets* are the group's, none of them past *ends*. A record behind the ends whose cause was
    not processed within them neither lowers a cut nor is in transit over it.
    """
    if one.origin is None:
        return False
    return one.offset < ends[one.partition] or _processed(one.origin, offsets)


def channel_state(
    cut: Offsets,
    offsets: Offsets,
    records: Iterable[Lineage],
    inside: Collection[RecordLineage] = (),
) -> tuple[Lineage, ...]:
    """The records behind the cut whose cause was processed in it: nobody sends them again (H6).

    Restored behind the cut, each once, in the order of their logs. *inside* are the origins that
    the cut holds, where a group may have written a record twice.
    """
    seen = set(inside)
    found = []
    for one in sorted(records, key=lambda each: (each.partition, each.offset)):
        behind = one.offset >= cut[one.partition]
        if not behind or one.origin is None or one.origin in seen:
            continue
        if _processed(one.origin, offsets):
            seen.add(one.origin)
            found.append(one)
    return tuple(found)


def lowered_offsets(
    cut: Offsets,
    offsets: Offsets,
    records: Iterable[Lineage],
    inside: Collection[RecordLineage] = (),
) -> dict[int, int]:
    """Group offsets from which everything in transit over the cut is written again (H7).

    For groups whose outputs are the same each time and that pass over what they have seen.
    *inside* as in `channel_state`.
    """
    found = dict(offsets)
    for one in channel_state(cut, offsets, records, inside):
        assert one.origin is not None
        found[one.origin.partition] = min(found[one.origin.partition], one.origin.offset)
    return found
