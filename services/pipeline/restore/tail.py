"""Which records an unclean election cut off a log and are to be put back behind it.

A stored record is in the elected log if the leader epoch that wrote it is the one that the log has
at its offset (log matching). Where an epoch is not known, and for what was written since the
election, content decides: a record that is there with the same key, value, headers and timestamp,
because its producer sent it again or an earlier run put it back, is not put back twice.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from services.model import EpochHistory, Unknown
from services.pipeline.restore.task import Spans, as_restored
from services.pipeline.stored_segments import Longs, RecordRun, StoredSegment, runs_between
from services.topic_backup.batch_log import BatchState
from services.topic_backup.record import HEAD, Record, decode, encode
from services.topic_backup.summary import PartitionSummary

NO_EPOCH = -1
DIGEST_BYTES = 16
THERE = "in the topic already"
ABORTED = "of an aborted transaction"
UNDECIDED = "of a transaction without an end"
TWICE = "saved from another replica, too"
COMMIT, ABORT = "commit", "abort"

Digest = bytes
Ranges = Sequence[tuple[int, int]]
"""Offsets ``[start, end)``, rising."""


@dataclass(frozen=True, slots=True)
class ElectedLog:
    """The log that the records are put back behind, as its leader has it."""

    log_start: int
    epochs: EpochHistory | Unknown

    def lacks(self, offsets: Longs, epochs: Longs) -> Longs:
        """Which of the stored records, given with their epochs, it may lack: their numbers.

        What lies before its start is none of its tail.
        """
        holds = offsets < self.log_start
        if isinstance(self.epochs, EpochHistory):
            for held in self.epochs.ranges:
                within = (offsets >= held.start) & (offsets < held.end)
                holds |= within & (epochs == held.epoch)
        return np.flatnonzero(~holds)


def epochs_of(part: PartitionSummary, offsets: Longs) -> Longs:
    """The leader epoch of each of *offsets*, as the manifest has them; `NO_EPOCH` if unknown."""
    found = np.full(len(offsets), NO_EPOCH, np.int64)
    for segment in part.segments:
        if not segment.epochs or segment.last_offset is None:
            continue
        starts = np.array([one.offset for one in segment.epochs], np.int64)
        numbers = np.array([one.epoch for one in segment.epochs], np.int64)
        within = np.flatnonzero((offsets >= starts[0]) & (offsets <= segment.last_offset))
        found[within] = numbers[np.searchsorted(starts, offsets[within], side="right") - 1]
    return found


def content(record: Record) -> Digest:
    """What stays the same of a record wherever it is put back."""
    encoded = encode(as_restored(record))
    return blake2b(encoded[HEAD.size - 4 :], digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class TailRecord:
    """A stored record that the elected log may lack."""

    offset: int
    content: Digest


def candidates(
    stored: Sequence[StoredSegment], part: PartitionSummary, log: ElectedLog
) -> Iterator[TailRecord]:
    """The *stored* records of *part* that *log* may lack, by offset."""
    for one in stored:
        for run in runs_between([one], one.first_offset, one.last_offset + 1):
            for number in log.lacks(run.offsets, epochs_of(part, run.offsets)):
                record = _record(run, int(number))
                yield TailRecord(record.offset, content(record))


def _record(run: RecordRun, number: int) -> Record:
    data = run.data[run.bounds[number] : run.bounds[number + 1]].tobytes()
    record, _ = decode(data, 0, len(data), len(data))
    return record


@dataclass(frozen=True, slots=True)
class Fates:
    """Offsets of records that were never committed, by what became of their transactions."""

    aborted: Ranges = ()
    undecided: Ranges = ()

    def of(self, offset: int) -> str | None:
        """Why the record is not put back; None if it is."""
        for ranges, fate in ((self.aborted, ABORTED), (self.undecided, UNDECIDED)):
            at = bisect_right(ranges, (offset, sys.maxsize)) - 1
            if at >= 0 and offset < ranges[at][1]:
                return fate
        return None


def fates_of(states: Iterable[BatchState]) -> Fates:
    """What became of each transaction, from the batches of a rescued log, in their order."""
    open_batches: dict[int, list[tuple[int, int]]] = {}
    aborted: list[tuple[int, int]] = []
    for one in states:
        if one.marker in (COMMIT, ABORT):
            ended = open_batches.pop(one.producer_id, [])
            aborted += ended if one.marker == ABORT else []
        elif one.transactional and one.marker is None:
            batch = (one.base_offset, one.last_offset + 1)
            open_batches.setdefault(one.producer_id, []).append(batch)
    undecided = [batch for held in open_batches.values() for batch in held]
    return Fates(tuple(sorted(aborted)), tuple(sorted(undecided)))


@dataclass(slots=True)
class TailChoice:
    """Chooses the records of one partition that are put back, from one source after the other."""

    there: Counter[Digest]
    """How often each content is in the elected log from the first candidate on."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that are not put back, by reason."""
    _taken: set[TailRecord] = field(default_factory=set)

    def choose(self, stored: Iterable[TailRecord], fates: Fates) -> Spans:
        """The offsets of those of *stored* that are put back."""
        spans: list[tuple[int, int]] = []
        joined = False
        for one in stored:
            reason = self._reason(one, fates)
            if reason is not None:
                self.left_out[reason] += 1
                joined = False
                continue
            begin = spans.pop()[0] if joined else one.offset
            spans.append((begin, one.offset + 1))
            joined = True
        return tuple(spans)

    def _reason(self, one: TailRecord, fates: Fates) -> str | None:
        if one in self._taken:
            return TWICE
        fate = fates.of(one.offset)
        if fate is not None:
            return fate
        self._taken.add(one)
        if self.there[one.content] > 0:
            self.there[one.content] -= 1
            return THERE
        return None
