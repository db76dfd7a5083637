"""Finds the cut of a log, checks that it is still that log, and lowers it by lineage.

Finds the cut of a checkpoint in a log to which its senders write directly, as in Kafka (H1).

A marker cannot be put before another sender's record. But every record carries its sender's
checkpoint id, so the log itself shows where the checkpoint begins.

Checks by leader epochs that a log is still the log from which a checkpoint was cut (H10).

An unclean election truncates a log, and records written afterwards have a later epoch. So the epoch
of one record proves all records before it, even if the log has the same length again.

Derives from record origins how far a cut is lowered and which records are in transit.

Participants stamp each record with the record that led to it. Everything here is a pure function of
such records and of offsets; all offsets are exclusive ends. The rules were found by experiment on
Kafka: H6 to H8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.topic_backup.summary import EpochStart


def cut(records: Iterable[tuple[int, int]], checkpoint: int) -> int | None:
    """The position of the first record that carries an id of *checkpoint* or greater, exclusive.

    *records* are positions and ids of committed records, markers as well as data, in the log's
    order. None: no such record, so the checkpoint has not reached this partition.
    """
    return next((position for position, id in records if id >= checkpoint), None)


NEW_ID = "take a checkpoint with a new id"


def diverged(partition: TopicPartition, wanted: Iterable[EpochStart], now: EpochHistory) -> str:
    """Why the log differs from the log with the *wanted* epochs; empty if it does not differ.

    Offsets that retention has removed prove nothing, and are not reported.
    """
    for one in wanted:
        found = now.epoch_at(one.offset)
        if one.offset < now.complete_from or found == one.epoch:
            continue
        later = [held for held in now.ranges if held.epoch > one.epoch]
        if found is None:
            end = now.ranges[-1].end if now.ranges else now.complete_from
            is_now = f"is gone: the log ends at {end} in epoch {now.last_written}"
        else:
            is_now = f"is of epoch {found} now"
            end = later[0].start if later else one.offset
        return (
            f"leader epoch diverged: offset {one.offset} of {partition} was of epoch {one.epoch} "
            f"when the checkpoint was cut and {is_now}; an unclean election cut the log at {end}: "
            f"{NEW_ID}"
        )
    return ""


Offsets = Mapping[int, int]
"""By the partition's number."""


@dataclass(frozen=True, slots=True, order=True)
class RecordLineage:
    """A record's identity: its cause, and its number among the outputs of that cause."""

    partition: int
    offset: int
    index: int = 0


@dataclass(frozen=True, slots=True)
class Lineage:
    """A record's position and its origin."""

    partition: int
    offset: int
    origin: RecordLineage | None
    """None: the record came from outside."""


@dataclass(frozen=True, slots=True)
class LoweredCut:
    """The greatest consistent cut within the given ends."""

    positions: dict[int, int]
    offsets: dict[int, int]
    """The group's offset in each partition: the end of its processed records in the cut."""
    rolled_back: dict[int, int]
    """The number of offsets by which each log was lowered."""
    rounds: int


def greatest_cut(
    floors: Offsets, ends: Offsets, committed: Offsets, records: Sequence[Lineage]
) -> LoweredCut:
    """Lower *ends* until the cut contains no record without the record that led to it (H8).

    Records below the floors existed before any end was read. The records that led to them are
    therefore before the ends, and were processed: they are in every cut, and need not be read.

    Args:
        floors: the ends as they were read first; no log is lowered below them.
        ends: the ends as they were read again, after all of *floors*.
        committed: the group's offsets, read after all of *ends*; an at-least-once group must have
            reached *ends*, because its outputs precede its commits.
        records: those in ``[floor, high watermark)`` of each log; others do not matter.
    """
    read = [record for record in records if record.offset >= floors[record.partition]]
    cut, rounds = dict(ends), 0
    while True:
        rounds += 1
        offsets = {one: min(committed.get(one, 0), end) for one, end in cut.items()}
        lowered = dict(cut)
        for record in read:
            within = record.offset < lowered[record.partition]
            if within and not _processed(record.origin, offsets):
                lowered[record.partition] = record.offset
        if lowered == cut:
            rolled_back = {one: ends[one] - end for one, end in cut.items()}
            return LoweredCut(cut, offsets, rolled_back, rounds)
        cut = lowered


def _processed(origin: RecordLineage | None, offsets: Offsets) -> bool:
    return origin is None or origin.offset < offsets.get(origin.partition, 0)


def needed(one: Lineage, ends: Offsets, offsets: Offsets) -> bool:
    """Whether a record matters for any cut within *ends*; most records of a log do not.

    *offsets* are the group's, none after the ends. A record after the ends whose cause was not
    processed within them neither lowers a cut nor is in transit.
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
    """The records after the cut whose cause was processed in it: no sender repeats them (H6).

    A restore writes them after the cut, each once, in log order. *inside* are the origins in the
    cut, in case a group has written a record twice.
    """
    seen = set(inside)
    found = []
    for record in sorted(records, key=lambda each: (each.partition, each.offset)):
        behind = record.offset >= cut[record.partition]
        if not behind or record.origin is None or record.origin in seen:
            continue
        if _processed(record.origin, offsets):
            seen.add(record.origin)
            found.append(record)
    return tuple(found)


def lowered_offsets(
    cut: Offsets,
    offsets: Offsets,
    records: Iterable[Lineage],
    inside: Collection[RecordLineage] = (),
) -> dict[int, int]:
    """Group offsets from which a group writes again every record in transit over the cut (H7).

    For groups whose outputs are repeatable and that skip duplicates. *inside* as in
    `channel_state`.
    """
    found = dict(offsets)
    for lineage in channel_state(cut, offsets, records, inside):
        assert lineage.origin is not None
        found[lineage.origin.partition] = min(
            found[lineage.origin.partition], lineage.origin.offset
        )
    return found
