"""Chooses the records that an unclean election truncated, to append them to the log again.

A stored record is in the elected log if the log has the same leader epoch at its offset (log
matching). Where an epoch is unknown, and for records written since the election, content decides:
a record is not restored if the log has one with the same key, value, headers and timestamp, which
its producer sent again or an earlier run restored.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from breakglass.services.model import EpochHistory, Unknown
from breakglass.services.pipeline.restore.task import Spans, as_restored
from breakglass.services.pipeline.stored_segments import (
    Longs,
    RecordRun,
    StoredSegment,
    runs_between,
)
from breakglass.services.topic_backup.batch_log import BatchState
from breakglass.services.topic_backup.record import HEAD, Record, decode, encode
from breakglass.services.topic_backup.summary import PartitionSummary

NO_EPOCH = -1
DIGEST_BYTES = 16
THERE = "in the topic already"
ABORTED = "of an aborted transaction"
UNDECIDED = "of a transaction without an end"
TWICE = "saved from another replica, too"

Digest = bytes
Ranges = Sequence[tuple[int, int]]
"""Offsets ``[start, end)``, rising."""


@dataclass(frozen=True, slots=True)
class ElectedLog:
    """The elected log, to which the records are appended, as its leader has it."""

    log_start: int
    epochs: EpochHistory | Unknown

    def lacks(self, offsets: Longs, epochs: Longs) -> Longs:
        """The indexes of stored records that the log may lack, by their offsets and epochs.

        Offsets before the log start are not part of the tail.
        """
        present = offsets < self.log_start
        if isinstance(self.epochs, EpochHistory):
            for known in self.epochs.ranges:
                within = (offsets >= known.start) & (offsets < known.end)
                present |= within & (epochs == known.epoch)
        return np.flatnonzero(~present)


def epochs_of(part: PartitionSummary, offsets: Longs) -> Longs:
    """The leader epoch of each of *offsets*, by the manifest; `NO_EPOCH` if unknown."""
    found = np.full(len(offsets), NO_EPOCH, np.int64)
    for segment in part.segments:
        if not segment.epochs or segment.last_offset is None:
            continue
        starts = np.array([epoch.offset for epoch in segment.epochs], np.int64)
        numbers = np.array([epoch.epoch for epoch in segment.epochs], np.int64)
        within = np.flatnonzero((offsets >= starts[0]) & (offsets <= segment.last_offset))
        found[within] = numbers[np.searchsorted(starts, offsets[within], side="right") - 1]
    return found


def content(record: Record) -> Digest:
    """A digest of the parts of a record that a restore keeps."""
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
    for segment in stored:
        for run in runs_between([segment], segment.first_offset, segment.last_offset + 1):
            for number in log.lacks(run.offsets, epochs_of(part, run.offsets)):
                record = _record(run, int(number))
                yield TailRecord(record.offset, content(record))


def _record(run: RecordRun, number: int) -> Record:
    data = run.data[run.bounds[number] : run.bounds[number + 1]].tobytes()
    record, _ = decode(data, 0, len(data), len(data))
    return record


@dataclass(frozen=True, slots=True)
class Fates:
    """Offsets of uncommitted records, by the outcome of their transactions."""

    aborted: Ranges = ()
    undecided: Ranges = ()

    def of(self, offset: int) -> str | None:
        """Why the record is not restored; None if it is."""
        for ranges, fate in ((self.aborted, ABORTED), (self.undecided, UNDECIDED)):
            at = bisect_right(ranges, (offset, sys.maxsize)) - 1
            if at >= 0 and offset < ranges[at][1]:
                return fate
        return None


def fates_of(states: Iterable[BatchState]) -> Fates:
    """The outcome of each transaction, from the batches of a rescued log, in their order."""
    open_batches: dict[int, list[tuple[int, int]]] = {}
    aborted: list[tuple[int, int]] = []
    for state in states:
        if state.commit is not None:
            ended = open_batches.pop(state.producer_id, [])
            aborted += [] if state.commit else ended
        elif state.transactional and state.marker is None:
            batch = (state.base_offset, state.last_offset + 1)
            open_batches.setdefault(state.producer_id, []).append(batch)
    undecided = [batch for batches in open_batches.values() for batch in batches]
    return Fates(tuple(sorted(aborted)), tuple(sorted(undecided)))


@dataclass(slots=True)
class TailChoice:
    """Chooses the records of one partition to restore, from one source after the other."""

    there: Counter[Digest]
    """How often each content is in the elected log from the first candidate on."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that are not restored, by reason."""
    _taken: set[TailRecord] = field(default_factory=set)

    def choose(self, stored: Iterable[TailRecord], fates: Fates) -> Spans:
        """The offsets of the *stored* records to restore."""
        spans: list[tuple[int, int]] = []
        joined = False
        for record in stored:
            reason = self._reason(record, fates)
            if reason is not None:
                self.left_out[reason] += 1
                joined = False
                continue
            begin = spans.pop()[0] if joined else record.offset
            spans.append((begin, record.offset + 1))
            joined = True
        return tuple(spans)

    def _reason(self, record: TailRecord, fates: Fates) -> str | None:
        if record in self._taken:
            return TWICE
        fate = fates.of(record.offset)
        if fate is not None:
            return fate
        self._taken.add(record)
        if self.there[record.content] > 0:
            self.there[record.content] -= 1
            return THERE
        return None
