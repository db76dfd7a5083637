"""Maps the offsets of a backup to those of the restored topic, and stores the map in a log file.

The log announces each transaction before its commit and confirms it afterwards. After a kill, an
announcement without a confirmation is settled by the progress that the cluster has, or by a read
of the topic.
"""

from __future__ import annotations

import json
import os
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from breakglass.services.pipeline.restore.task import Hopeless, Spans, runs_within
from breakglass.services.pipeline.stored_segments import (
    Longs,
    RecordRun,
    StoredSegment,
    runs_between,
)
from breakglass.services.regular_file import read_regular
from breakglass.services.rights import open_new


@dataclass(frozen=True, slots=True)
class CommittedRun:
    """Stored records that are adjacent in the restored topic."""

    first_offset: int
    """The backup offset of the first record."""
    next_offset: int
    """The backup offset after the last record."""
    new_offset: int
    """The topic offset of the first record."""
    count: int
    declared: Mapping[str, int] = field(default_factory=dict)
    """Records that could not be kept exactly, by the difference."""

    def document(self) -> dict[str, object]:
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
        return self.runs[0].new_offset if self.runs else self._empty_at

    @property
    def end(self) -> int:
        """The topic offset after the last restored record."""
        if not self.runs:
            return self._empty_at
        return self.runs[-1].new_offset + self.runs[-1].count

    def expected(self, start: int, end: int) -> Iterator[RecordRun]:
        """The stored records of ``[start, end)`` that the restore had to write."""
        if self._spans is None:
            return runs_between(self.stored, start, end)
        first = bisect_right(self._spans, start, key=lambda span: span[1])
        after = bisect_left(self._spans, end, first, key=lambda span: span[0])
        spans = [(max(begin, start), min(stop, end)) for begin, stop in self._spans[first:after]]
        return runs_within(self.stored, spans)

    def new_of(self, offset: int) -> int:
        """The new offset for a group that had committed *offset*: that of the next record.

        Never past the end.
        """
        for run in self.runs:
            if offset < run.next_offset:
                if offset <= run.first_offset:
                    return run.new_offset
                skipped = self.expected(run.first_offset, offset)
                return run.new_offset + sum(map(len, skipped))
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
        pieces = self.expected(run.first_offset, run.next_offset)
        return np.concatenate([piece.offsets for piece in pieces])


MOST_BYTES = 1024 * 1024 * 1024
"""The maximum size of the file."""


@dataclass(frozen=True, slots=True)
class Announced:
    """The records of one transaction, announced before its commit."""

    id: str
    runs: tuple[CommittedRun, ...]
    """By old offset; several runs if other producers wrote in between."""

    @property
    def first_offset(self) -> int:
        return self.runs[0].first_offset

    @property
    def next_offset(self) -> int:
        return self.runs[-1].next_offset

    def overlaps(self, other: Announced) -> bool:
        return self.first_offset < other.next_offset and other.first_offset < self.next_offset


@dataclass(frozen=True, slots=True)
class LoggedOffsets:
    """The content of a log."""

    confirmed: tuple[Announced, ...] = ()
    """The confirmed announcements, by old offset."""
    open: tuple[Announced, ...] = ()
    """Unconfirmed announcements of unconfirmed records, in the order of the log."""

    @property
    def runs(self) -> list[CommittedRun]:
        """The confirmed runs, by old offset."""
        return [run for transaction in self.confirmed for run in transaction.runs]

    @property
    def next_offset(self) -> int | None:
        """The old offset after the last confirmed record; None without one."""
        return self.confirmed[-1].next_offset if self.confirmed else None


def read_log(path: Path) -> LoggedOffsets:
    """Read the log at *path*; empty if there is no file.

    A line torn by a kill is ignored: its transaction was not committed.
    """
    try:
        content = read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        return LoggedOffsets()
    announced: dict[str, Announced] = {}
    confirmed: dict[str, Announced] = {}
    for line in content.split(b"\n")[:-1]:
        found = _parsed(line)
        if isinstance(found, Announced):
            announced[found.id] = found
        elif found in announced:
            confirmed[found] = announced[found]
    certain = sorted(confirmed.values(), key=lambda transaction: transaction.first_offset)
    waiting = [
        transaction
        for transaction in announced.values()
        if transaction.id not in confirmed and not any(map(transaction.overlaps, certain))
    ]
    return LoggedOffsets(tuple(certain), tuple(waiting))


def _parsed(line: bytes) -> Announced | str | None:
    try:
        document: Any = json.loads(line)
        if "confirmed" in document:
            return str(document["confirmed"])
        runs = tuple(CommittedRun(**run) for run in document["runs"])
        return Announced(str(document["id"]), runs) if runs else None
    except (ValueError, TypeError, KeyError):
        return None


class OffsetLog:
    """Writes the log of one partition. Several writers may append at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def announce(self, runs: Sequence[CommittedRun]) -> Announced:
        """Announce the runs of a commit; the line is on disk when this returns."""
        one = Announced(secrets.token_hex(8), tuple(runs))
        document = {"id": one.id, "runs": [run.document() for run in runs]}
        self._append(document, durable=True)
        return one

    def confirm(self, announced: Announced) -> None:
        self._append({"confirmed": announced.id}, durable=False)

    def settle(self, reached: int | None, look: Callable[[Announced], bool]) -> int | None:
        """Confirm the open announcements that were committed; return the next old offset.

        *reached* is the next old offset by the committed offset of the group, if there is one.
        It may be too low: a coordinator that is killed after it has acknowledged a transaction, and
        before it has stored the offsets of the group, can lose them. *look* reads the topic to find
        whether the records of an announcement are committed; it decides where nothing else can.

        Raises Hopeless: the log and the cluster contradict each other.
        """
        logged = read_log(self._path)
        for transaction in logged.open:
            alone = not any(
                other.id != transaction.id and transaction.overlaps(other) for other in logged.open
            )
            past = reached is not None and transaction.next_offset <= reached
            if (past and alone) or look(transaction):
                self.confirm(transaction)
        logged = read_log(self._path)
        found = logged.next_offset
        if reached is None or found == reached:
            return found
        if found is None or found < reached or not look(logged.confirmed[-1]):
            raise Hopeless(
                f"{self._path} has records before offset {found}, the cluster has records before "
                f"{reached}: name by --progress the folder that the restore was started with, or "
                "restore into a topic of another name."
            )
        return found

    def _append(self, document: object, *, durable: bool) -> None:
        # A new line, also after a torn line.
        line = f"{json.dumps(document)}\n".encode()
        with open(self._path, "ab", opener=open_new) as file, self._path.open("rb") as before:
            if file.tell():
                before.seek(-1, os.SEEK_END)
                line = line if before.read(1) == b"\n" else b"\n" + line
            file.write(line)
            file.flush()
            if durable:
                os.fsync(file.fileno())


def runs_of(old_offsets: Sequence[int], new_offsets: Iterable[int]) -> list[CommittedRun]:
    """Runs of records with consecutive new offsets, from the offsets of each record.

    Raises ValueError: new offsets do not rise.
    """
    runs: list[CommittedRun] = []
    begin, at, last = 0, -1, -1
    for number, new in enumerate(new_offsets):
        if new <= last:
            raise ValueError(f"offset {new} follows {last}")
        if number and new != last + 1:
            runs.append(_run(old_offsets, begin, number, at))
            begin = number
        if begin == number:
            at = new
        last = new
    runs.append(_run(old_offsets, begin, len(old_offsets), at))
    return runs


def _run(old_offsets: Sequence[int], begin: int, end: int, new: int) -> CommittedRun:
    return CommittedRun(int(old_offsets[begin]), int(old_offsets[end - 1]) + 1, new, end - begin)
