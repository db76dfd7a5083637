"""From the offsets of a backup to those of the restored topic, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from services.pipeline.restore.task import Spans, runs_within
from services.pipeline.stored_segments import Longs, RecordRun, StoredSegment, runs_between


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """Stored records that were restored one behind the other."""

    first_offset: int
    """Of the first of them in the backup."""
    next_offset: int
    """One past the last of them in the backup."""
    new_offset: int
    """Of the first of them in the topic."""
    count: int
    declared: Mapping[str, int] = field(default_factory=dict)
    """Records among them that could not be kept as they were, by what is different."""

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return asdict(self)


class OffsetMap:
    """One partition's way between old and new offsets."""

    def __init__(
        self,
        runs: Sequence[CommittedRun],
        stored: Sequence[StoredSegment],
        spans: Spans | None = None,
        empty_at: int = 0,
    ) -> None:
        """*runs* by old offset; without any, *empty_at* is where the partition ends.

        *spans* of the *stored* records were to be restored; all by default.
        """
        self.runs = runs
        self.stored = stored
        self._spans = spans
        self._empty_at = empty_at
        self._news = np.array([one.new_offset for one in runs], np.int64)

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
        """The stored records of ``[start, end)`` that were to be restored."""
        if self._spans is None:
            return runs_between(self.stored, start, end)
        spans = [(max(begin, start), min(stop, end)) for begin, stop in self._spans]
        return runs_within(self.stored, [one for one in spans if one[0] < one[1]])

    def new_of(self, offset: int) -> int:
        """Where a group goes on that had committed *offset*: at the first record from there on.

        Also when no record had just that offset; never past the end.
        """
        for run in self.runs:
            if offset < run.next_offset:
                skipped = self._count(run.first_offset, offset)
                return run.new_offset + skipped
        return self.end

    def old_from(self, new: int) -> int:
        """The old offset of the first restored record at or behind the offset *new*."""
        for run in self.runs:
            if new < run.new_offset + run.count:
                return int(self._offsets(run)[max(0, new - run.new_offset)])
        return self.runs[-1].next_offset if self.runs else 0

    def old_of(self, news: Longs) -> Longs:
        """The old offset of each of *news*, which rise; -1 where none was restored there."""
        olds = np.full(len(news), -1, np.int64)
        at = np.searchsorted(self._news, news, side="right") - 1
        for number in np.unique(at[at >= 0]):
            run = self.runs[int(number)]
            place = np.flatnonzero((at == number) & (news < run.new_offset + run.count))
            held = self._offsets(run)
            olds[place] = held[news[place] - run.new_offset]
        return olds

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Old offset, new offset and number of records that lie side by side, then and now.

        Of those whose old offsets are in ``[start, end)``.
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
        return np.concatenate([one.offsets for one in pieces])

    def _count(self, start: int, end: int) -> int:
        """Stored records with offsets in ``[start, end)``."""
        if end <= start:
            return 0
        return sum(len(one.offsets) for one in runs_between(self.stored, start, end))
