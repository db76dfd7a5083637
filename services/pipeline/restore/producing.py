"""Stored records of one partition, produced exactly once and in their order.

A transaction holds some thousands of records and, with them, how far the restore has come: the
offset of the next stored record, committed for a group of this restore's own. Beginning anew
fences whoever was at it before, and only then asks how far that one came (B6). What each
transaction is about to commit is announced in the offset log first: so the way from old to new
offsets is known whatever is killed.

Which producer sends the records is the client's affair: librdkafka's in tasks of Spark, Java's
for the few records that the other would change (B9). Both work under one transactional id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from services.errors import PipelineError
from services.pipeline.restore.offset_log import Announced, OffsetLog, runs_of
from services.pipeline.restore.offset_map import Committed
from services.pipeline.restore.task import ForeignRecords, PartitionRestored, PartitionTask
from services.pipeline.segment_files import Run

SECONDS = 120.0
FIRST_BYTES = 1024 * 1024
MOST_BYTES = 32 * 1024 * 1024
"""Of one transaction; the first ones are small, and grow while the brokers are quick."""
QUICK_SECONDS, SLOW_SECONDS = 2.0, 10.0
FACTOR = 4


class Client(Protocol):
    """A producer under the task's transactional id."""

    def begin(self) -> None: ...

    def take(
        self, data: bytes, at: int, number: int, *, tell: bool, declare: Callable[[str], None]
    ) -> bool:
        """Send the record at *at* of *data*, the *number*-th of the transaction.

        With *tell* its new offset is among those of `flush`. Returns False, and sends nothing,
        for one that this producer should not send.
        """

    def flush(self) -> Mapping[int, int]:
        """Wait for all of them; new offsets by number.

        Raises:
            PipelineError: not all of them were taken.
        """

    def commit(self, next_offset: int) -> None:
        """Commit them and how far the restore is; without transactions, nothing."""

    def abort(self) -> None:
        """End a transaction that nothing was sent in."""


class Progress(Protocol):
    """What the cluster knows of an earlier attempt."""

    def reached(self) -> int | None:
        """The next stored offset; None where nothing is known any more."""

    def readable(self, one: Announced) -> bool:
        """Whether the topic has the records of *one*, committed."""


@dataclass(slots=True)
class Pace:
    """How much goes into a transaction: as much as takes some seconds."""

    bytes: int = FIRST_BYTES

    def took(self, seconds: float) -> None:
        """Note how long the last one took."""
        if seconds < QUICK_SECONDS:
            self.bytes = min(self.bytes * FACTOR, MOST_BYTES)
        elif seconds > SLOW_SECONDS:
            self.bytes = max(self.bytes // FACTOR, FIRST_BYTES)


class Producing:
    """One attempt. The client has fenced earlier ones by now."""

    def __init__(self, task: PartitionTask, client: Client, progress: Progress) -> None:
        self._task = task
        self._client = client
        self._progress = progress
        self._log = OffsetLog(task.log_path)
        self._pace = Pace()
        self._restored = PartitionRestored(task.partition)
        self._declared: dict[str, int] = {}
        """Of the transaction: records that are not kept as they were."""

    def run(self) -> PartitionRestored:
        """Restore from where an earlier attempt came, to the end or to where the client stops."""
        for some in self._transactions(self._start()):
            began = time.monotonic()
            taken = self._transaction(some)
            if taken < len(some.offsets):
                self._restored.stopped_at = int(some.offsets[taken])
                break
            self._pace.took(time.monotonic() - began)
        return self._restored

    def _start(self) -> int:
        """The stored offset to go on with."""
        reached = self._progress.reached() if self._task.transactional else None
        return self._log.settle(reached, self._progress.readable) or 0

    def _transactions(self, start: int) -> Iterator[Run]:
        """Stored records, as many at a time as go into one transaction."""
        for run in self._task.runs(start):
            at = 0
            while at < len(run.offsets):
                room = run.bounds[at] + self._pace.bytes
                fits = int(np.searchsorted(run.bounds, room, side="right")) - 1
                limit = self._task.records_a_transaction
                upto = min(at + limit, max(at + 1, fits), len(run.offsets))
                yield cut(run, at, upto)
                at = upto

    def _transaction(self, some: Run) -> int:
        """Commit *some*, or those of its records before which the client stops; their number."""
        self._declared = {}
        if self._task.transactional:
            self._client.begin()
        taken = self._take(some)
        news = self._client.flush()
        if taken:
            done = cut(some, 0, taken)
            announced = self._log.announce(self._runs(done, news))
            self._client.commit(announced.next_offset)
            self._log.confirm(announced)
            self._restored.records += taken
            self._restored.bytes += len(done.data)
        elif self._task.transactional:
            self._client.abort()
        return taken

    def _take(self, some: Run) -> int:
        data = some.data.tobytes()
        last = len(some.offsets) - 1
        for number, position in enumerate(some.bounds[:-1].tolist()):
            tell = not self._task.alone or number in (0, last)
            if not self._client.take(data, position, number, tell=tell, declare=self._declare):
                return number
        return last + 1

    def _declare(self, what: str) -> None:
        self._declared[what] = self._declared.get(what, 0) + 1

    def _runs(self, some: Run, news: Mapping[int, int]) -> list[Committed]:
        """What the transaction holds, by where it lies in the topic."""
        count = len(some.offsets)
        if not self._task.alone:
            return self._scattered(some, news)
        first, last = news[min(news)], news[max(news)]
        if last - first != max(news) - min(news):
            raise ForeignRecords(
                f"{self._task.where} is being written by somebody else: stop them and delete the "
                "topic, then restore it anew."
            )
        start, end = int(some.offsets[0]), int(some.offsets[-1]) + 1
        return [Committed(start, end, first, count, self._declared)]

    def _scattered(self, some: Run, news: Mapping[int, int]) -> list[Committed]:
        try:
            placed = [news[number] for number in range(len(some.offsets))]
            runs = runs_of(some.offsets.tolist(), placed)
        except (KeyError, ValueError) as error:
            raise PipelineError(
                f"{self._task.where} took records out of order ({error}): try again with --resume."
            ) from None
        first = runs[0]
        runs[0] = Committed(
            first.first_offset, first.next_offset, first.new_offset, first.count, self._declared
        )
        return runs


def cut(run: Run, start: int, end: int) -> Run:
    """Records number *start* to *end* of *run*."""
    bounds = run.bounds[start : end + 1]
    return Run(run.offsets[start:end], bounds - bounds[0], run.data[bounds[0] : bounds[-1]])
