"""The map between the offsets of a backup and those of the restored topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from breakglass.services.pipeline.restore.task import Spans, runs_within
from breakglass.services.pipeline.stored_segments import (
    Longs,
    RecordRun,
    StoredSegment,
    runs_between,
)


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """Stored records that are adjacent in the restored topic."""

    first_offset: int
    """The backup offset of the first record."""
    next_offset: int
    """One past the backup offset of the last record."""
    new_offset: int
    """The topic offset of the first record."""
    count: int
    declared: Mapping[str, int] = field(default_factory=dict)
    """Records that could not be kept exactly, by the difference."""

    def document(self) -> dict[str, object]:
        """The run as JSON."""
        return asdict(self)


class OffsetMap:
    """Maps the old and new offsets of one partition."""

    def __init__(
        self,
        runs: Sequence[CommittedRun],
        stored: Sequence[StoredSegment],
        spans: Spans | None = None,
        empty_at: int = 0,
    ) -> None:
        """*runs* are by old offset; without runs, the partition ends at *empty_at*.

        *spans* are the *stored* offsets to restore, by default all.
        """
        self.runs = runs
        self.stored = stored
        self._spans = spans
        self._empty_at = empty_at
        self._news = np.array([run.new_offset for run in runs], np.int64)

    @property
    def start(self) -> int:
        """The offset of the first restored record."""
        return self.runs[0].new_offset if self.runs else self._empty_at

    @property
    def end(self) -> int:
        """One past the last restored record."""
        if not self.runs:
            return self._empty_at
        return self.runs[-1].new_offset + self.runs[-1].count

    def expected(self, start: int, end: int) -> Iterator[RecordRun]:
        """The stored records of ``[start, end)`` that the restore had to write."""
        if self._spans is None:
            return runs_between(self.stored, start, end)
        spans = [(max(begin, start), min(stop, end)) for begin, stop in self._spans]
        return runs_within(self.stored, [span for span in spans if span[0] < span[1]])

    def new_of(self, offset: int) -> int:
        """The new offset for a group that had committed *offset*: that of the next record.

        Never past the end.
        """
        for run in self.runs:
            if offset < run.next_offset:
                skipped = self._count(run.first_offset, offset)
                return run.new_offset + skipped
        return self.end

    def old_from(self, new: int) -> int:
        """The old offset of the first restored record at or after the offset *new*."""
        for run in self.runs:
            if new < run.new_offset + run.count:
                return int(self._offsets(run)[max(0, new - run.new_offset)])
        return self.runs[-1].next_offset if self.runs else 0

    def old_of(self, news: Longs) -> Longs:
        """The old offsets of the rising offsets *news*; -1 for records that were not restored."""
        olds = np.full(len(news), -1, np.int64)
        at = np.searchsorted(self._news, news, side="right") - 1
        for number in np.unique(at[at >= 0]):
            run = self.runs[int(number)]
            place = np.flatnonzero((at == number) & (news < run.new_offset + run.count))
            stored = self._offsets(run)
            olds[place] = stored[news[place] - run.new_offset]
        return olds

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Old offset, new offset and count of records that are adjacent in both.

        Only records with old offsets in ``[start, end)``.
        """
        for run in self.runs:
            if run.next_offset <= start or run.first_offset >= end:
                continue
            olds = self._offsets(run)
            news = run.new_offset + np.arange(len(olds))
            chosen = (olds >= start) & (olds < end)
            olds, news = olds[chosen], news[chosen]
            breaks = np.flatnonzero(np.diff(olds) != 1) + 1
            for some in np.split(np.arange(len(olds)), breaks):
                if len(some):
                    yield int(olds[some[0]]), int(news[some[0]]), len(some)

    def _offsets(self, run: CommittedRun) -> Longs:
        pieces = runs_between(self.stored, run.first_offset, run.next_offset)
        return np.concatenate([piece.offsets for piece in pieces])

    def _count(self, start: int, end: int) -> int:
        """Stored records with offsets in ``[start, end)``."""
        if end <= start:
            return 0
        return sum(len(run.offsets) for run in runs_between(self.stored, start, end))
