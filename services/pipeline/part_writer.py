"""Writes encoded records as segments, in tasks of Spark or without Spark.

A chunk has the bytes of many records for the records file, and their positions for the index:
neither is split by record. Tasks, and successive jobs, may be limited to a number of bytes per
second.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.part import SegmentPart, part_names, run_part_names
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_reader import MAGIC

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

CATCH_UP = 2.0
"""The maximum speed of catching up, as a multiple of the rate."""
LONGEST_SECONDS = 1.0
"""The longest single wait, so that a cancelled task ends soon."""
CREDIT_SECONDS = 5.0
"""Credit for idle time is limited to this: more would arrive as a burst."""


@dataclass(slots=True)
class Pace:
    """Limits one task to a rate; None is unlimited."""

    bytes_per_second: float | None
    credit: float = 0.0
    """Bytes that may be written in addition to the rate."""
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    _began: float | None = field(default=None, init=False)
    _spent: int = field(default=0, init=False)
    _before: float = field(default=0.0, init=False)
    """The time of the last write."""

    def spend(self, size: int) -> None:
        """Wait until the rate allows *size* more bytes."""
        if self.bytes_per_second is None:
            return
        if self._began is None:
            self._began = self._before = self.clock()
        self._spent += size
        by_rate = self._began + (self._spent - self.credit) / self.bytes_per_second
        soonest = self._before + size / (CATCH_UP * self.bytes_per_second)
        due = max(by_rate, soonest)
        while (left := due - self.clock()) > 0:
            self.wait(min(left, LONGEST_SECONDS))
        self._before = self.clock()


@dataclass(slots=True)
class Budget:
    """The bytes that successive jobs may write at their common rate.

    Between jobs, queries, plans and commits take time without a write. The next job catches up, so
    that all jobs together reach the rate, and never exceed it.
    """

    bytes_per_second: float
    clock: Callable[[], float] = time.monotonic
    _began: float | None = field(default=None, init=False)
    _spent: float = field(default=0.0, init=False)

    def credit(self) -> float:
        """Bytes that a job starting now may write in addition to its rate."""
        now = self.clock()
        if self._began is None:
            self._began = now
        due = (now - self._began) * self.bytes_per_second
        most = CREDIT_SECONDS * self.bytes_per_second
        self._spent = max(self._spent, due - most)
        return max(0.0, due - self._spent)

    def spend(self, size: int) -> None:
        """Count bytes that a job has written."""
        self._spent += size


ENTRY_FIELDS = 3


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Adjacent encoded records of one partition."""

    partition: int
    offsets: Longs
    timestamps: Longs
    bounds: Longs
    """The start of each record in *data*, and the end of the last; starts with 0."""
    data: memoryview

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, end: int) -> RecordChunk:
        """Records number *start* to *end*."""
        bounds = self.bounds[start : end + 1]
        return RecordChunk(
            self.partition,
            self.offsets[start:end],
            self.timestamps[start:end],
            bounds - bounds[0],
            self.data[bounds[0] : bounds[-1]],
        )


@dataclass(frozen=True, slots=True)
class PartTarget:
    """Where and how one job writes its parts."""

    folder: Folder
    run: str
    """Distinguishes this job's files from those of all other jobs."""
    max_segment_bytes: int
    bytes_per_second: float | None = None
    """The maximum rate of each task; None: unlimited."""
    credit: float = 0.0
    """Bytes that each task may write in addition to its rate."""
    records_crc: bool = False
    """Whether parts also include the CRC of their records."""

    def names(self, attempt: int, chunk: RecordChunk, number: int) -> tuple[str, str]:
        """The names of the records file and the index of the part that starts with *chunk*."""
        if self.folder.original:
            return part_names(self.run, attempt, chunk.partition, number)
        return run_part_names(self.run, attempt, chunk.partition, int(chunk.offsets[0]))


class PartTask:
    """The parts of one attempt of a task."""

    def __init__(self, target: PartTarget, attempt: int) -> None:
        self._target = target
        self._attempt = attempt
        self._number = 0
        self._open: _OpenPart | None = None
        self._pace = Pace(target.bytes_per_second, target.credit)

    def __enter__(self) -> PartTask:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.abandon()

    def take(self, chunk: RecordChunk) -> Iterator[SegmentPart]:
        """Write *chunk*, in as many parts as the maximum segment size requires."""
        while len(chunk):
            part = self._open
            if part is None or part.size > self._target.max_segment_bytes:
                yield from self.finish()
                names = self._target.names(self._attempt, chunk, self._number)
                self._number += 1
                self._open = _OpenPart(self._target, names, chunk.partition)
                part = self._open
            room = self._target.max_segment_bytes - part.size
            # The record that crosses the limit is the last of its segment.
            fits = int(np.searchsorted(chunk.bounds[:-1], room, side="right"))
            some = chunk.cut(0, fits)
            part.write(some)
            self._pace.spend(len(some.data))
            chunk = chunk.cut(fits, len(chunk))

    def finish(self) -> Iterator[SegmentPart]:
        """Close the open part, if any, and make it durable."""
        part, self._open = self._open, None
        if part is not None:
            yield part.close()


class _OpenPart:
    def __init__(self, target: PartTarget, names: tuple[str, str], partition: int) -> None:
        self._names = names
        self._partition = partition
        self._records, self._index = (target.folder.begin(name) for name in names)
        self._digest = hashlib.sha256()
        self._crc = 0 if target.records_crc else None
        self._count = 0
        self._first: tuple[int, int] | None = None
        self._last = (0, 0)
        self._max_timestamp = 0
        self.size = 0
        self._put(memoryview(MAGIC))
        self._index.write(memoryview(MAGIC))

    def write(self, chunk: RecordChunk) -> None:
        """Append the records of *chunk*, which is not empty."""
        entries = np.empty((len(chunk), ENTRY_FIELDS), ">i8")
        entries[:, 0] = chunk.offsets
        entries[:, 1] = chunk.bounds[:-1] + self.size
        entries[:, 2] = np.diff(chunk.bounds)
        self._put(chunk.data)
        if self._crc is not None:
            self._crc = zlib.crc32(chunk.data, self._crc)
        self._index.write(memoryview(entries.tobytes()))
        newest = int(chunk.timestamps.max())
        if self._first is None:
            self._first = int(chunk.offsets[0]), int(chunk.timestamps[0])
            self._max_timestamp = newest
        self._last = int(chunk.offsets[-1]), int(chunk.timestamps[-1])
        self._max_timestamp = max(self._max_timestamp, newest)
        self._count += len(chunk)

    def close(self) -> SegmentPart:
        """Make both files durable; return the part."""
        self._records.close()
        self._index.close()
        first = self._first or (0, 0)
        return SegmentPart(
            partition=self._partition,
            records=self._names[0],
            index=self._names[1],
            count=self._count,
            first_offset=first[0],
            last_offset=self._last[0],
            first_timestamp=first[1],
            last_timestamp=self._last[1],
            max_timestamp=self._max_timestamp,
            records_bytes=self.size,
            sha256=self._digest.hexdigest(),
            records_crc=self._crc,
        )

    def abandon(self) -> None:
        self._records.abandon()
        self._index.abandon()

    def _put(self, data: memoryview) -> None:
        self._records.write(data)
        self._digest.update(data)
        self.size += len(data)


RECORDS_A_CHUNK = 2_000
UNSTAMPED = -1
"""The timestamp, in a chunk, of a record without one."""


def copy_exactly(log: CommittedLog, start: int, end: int, target: PartTarget) -> list[SegmentPart]:
    """Copy the committed records in ``[start, end)`` without Spark; return their parts.

    Decodes the records one by one, which is slow: for ranges that are too small for a job.

    Raises:
        StorageError: the folder cannot be written.
        ClusterError, Unreachable: the leader cannot be read.
    """
    with storage_errors(target.folder.where()), PartTask(target, attempt=0) as task:
        chunks = exact_chunks(log, start, end)
        parts = [part for chunk in chunks for part in task.take(chunk)]
        return [*parts, *task.finish()]


def copy_chosen(
    log: CommittedLog, offsets: Collection[int], target: PartTarget
) -> list[SegmentPart]:
    """Copy the committed records at *offsets*; return their parts. Raises as `copy_exactly`."""
    wanted = frozenset(offsets)
    records = log.records(min(wanted), max(wanted) + 1)
    chosen = (record for record in records if record.offset in wanted)
    with storage_errors(target.folder.where()), PartTask(target, attempt=0) as task:
        chunks = encoded_chunks(log.partition.partition, chosen)
        parts = [part for chunk in chunks for part in task.take(chunk)]
        return [*parts, *task.finish()]


def exact_chunks(log: CommittedLog, start: int, end: int) -> Iterator[RecordChunk]:
    """The committed records with offsets in ``[start, end)``, encoded."""
    return encoded_chunks(log.partition.partition, log.records(start, end))


def encoded_chunks(partition: int, records: Iterator[Record]) -> Iterator[RecordChunk]:
    """The *records* of a partition, encoded."""
    while some := list(islice(records, RECORDS_A_CHUNK)):
        encoded = [encode(record) for record in some]
        stamps = [UNSTAMPED if record.timestamp is None else record.timestamp for record in some]
        yield RecordChunk(
            partition=partition,
            offsets=np.array([record.offset for record in some], np.int64),
            timestamps=np.array(stamps, np.int64),
            bounds=np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            data=memoryview(b"".join(encoded)),
        )
