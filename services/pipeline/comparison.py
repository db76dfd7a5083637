"""Compares the records of a topic with stored records, byte by byte, in tasks of Spark.

Both sides have the same encoding, so equal stretches are compared as one piece of memory. Only
stretches that differ are compared record by record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.log_range import (
    LogRange,
    Ranges,
    chunks_in,
    divided,
    range_of,
)
from breakglass.services.pipeline.batches.tasks import run_tasks
from breakglass.services.pipeline.part_writer import RecordChunk
from breakglass.services.pipeline.restore.offset_map import OffsetMap
from breakglass.services.pipeline.restore.task import restored_bytes
from breakglass.services.pipeline.source import PartitionSource
from breakglass.services.pipeline.stored_segments import (
    Bytes,
    Longs,
    RecordRun,
    StoredSegment,
    runs_between,
)
from breakglass.services.topic_backup.manifest import TopicIdentity

if TYPE_CHECKING:
    from breakglass.services.pipeline.restore.offset_map import OffsetMap

OFFSET_BYTES, KIND_BYTES = 8, 4
LOG_APPEND = np.array([0, 0, 0, 1], np.uint8)
LISTED = 100
"""The number of differences of each kind that are listed by offset; all are counted."""


@dataclass(slots=True)
class Differences:
    """How a stretch of a topic differs from the backup. All offsets are the backup's."""

    partition: int
    first: int = -1
    last: int = -1
    """The last record of the topic."""
    equal: int = 0
    bytes: int = 0
    """The size of the topic's records, encoded."""
    counts: dict[str, int] = field(default_factory=dict)
    """Records that are ``missing`` from the topic, ``extra`` in it, or ``different``."""
    offsets: dict[str, list[int]] = field(default_factory=dict)
    """The first offsets of each kind."""

    def note(self, kind: str, offsets: Sequence[int]) -> None:
        """Count *offsets* as differences of one *kind*."""
        if len(offsets):
            self.counts[kind] = self.counts.get(kind, 0) + len(offsets)
            listed = self.offsets.setdefault(kind, [])
            listed.extend(int(offset) for offset in offsets[: LISTED - len(listed)])

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The differences from the JSON of `to_json`."""
        return cls(**json.loads(text))


class StretchComparison:
    """One stretch of a partition, from its first record to its last."""

    def __init__(
        self,
        partition: int,
        stored: Sequence[StoredSegment],
        offsets: OffsetMap | None = None,
        *,
        alone: bool = True,
    ) -> None:
        """Compare with *stored*; *offsets* is required for a restored topic."""
        self.found = Differences(partition)
        self._stored = stored
        self._offsets = offsets
        self._alone = alone

    def take(self, chunk: RecordChunk) -> None:
        if self._offsets is not None:
            olds = self._offsets.old_of(chunk.offsets)
            if self._alone:
                self.found.note("extra", list(chunk.offsets[olds < 0]))
            chunk = as_stored(chunk, olds)
        if len(chunk):
            self._take(chunk)

    def _take(self, chunk: RecordChunk) -> None:
        start = int(chunk.offsets[0]) if self.found.first < 0 else self.found.last + 1
        if self.found.first < 0:
            self.found.first = start
        self.found.last = int(chunk.offsets[-1])
        self.found.bytes += len(chunk.data)
        done = 0
        for run in self._expected(start, self.found.last + 1):
            upto = int(np.searchsorted(chunk.offsets, run.offsets[-1], side="right"))
            self._compare(chunk.cut(done, upto) if upto > done else None, run)
            done = upto
        if done < len(chunk):
            self.found.note("extra", list(chunk.offsets[done:]))

    def _expected(self, start: int, end: int) -> Iterator[RecordRun]:
        if self._offsets is not None:
            return self._offsets.expected(start, end)
        return runs_between(self._stored, start, end)

    def _compare(self, chunk: RecordChunk | None, run: RecordRun) -> None:
        if chunk is None:
            self.found.note("missing", list(run.offsets))
            return
        if self._offsets is not None:
            run = as_create_time(run)
        if np.array_equal(chunk.offsets, run.offsets) and _same(chunk.data, run.data):
            self.found.equal += len(chunk)
        else:
            # Compare record by record.
            self.found.note("missing", list(np.setdiff1d(run.offsets, chunk.offsets)))
            self.found.note("extra", list(np.setdiff1d(chunk.offsets, run.offsets)))
            both, ours, theirs = np.intersect1d(chunk.offsets, run.offsets, return_indices=True)
            different = [
                int(offset)
                for offset, our, their in zip(both, ours, theirs, strict=True)
                if not self._equal(
                    chunk.data[chunk.bounds[our] : chunk.bounds[our + 1]],
                    run.data[run.bounds[their] : run.bounds[their + 1]],
                )
            ]
            self.found.note("different", different)
            self.found.equal += len(both) - len(different)

    def _equal(self, ours: memoryview, other: Bytes) -> bool:
        if _same(ours, other):
            return True
        return self._offsets is not None and bytes(ours) == restored_bytes(other.tobytes())


def _same(ours: memoryview, other: Bytes) -> bool:
    return np.array_equal(np.frombuffer(ours, np.uint8), other)


def as_stored(chunk: RecordChunk, olds: Longs) -> RecordChunk:
    """Restored records with their old offsets; foreign records, at -1, are left out."""
    ours = np.flatnonzero(olds >= 0)
    if len(ours) < len(chunk):
        chunk, olds = _only(chunk, ours), olds[ours]
    data = np.frombuffer(chunk.data, np.uint8).copy()
    places = chunk.bounds[:-1, None] + np.arange(OFFSET_BYTES)
    data[places] = olds.astype(">i8").view(np.uint8).reshape(-1, OFFSET_BYTES)
    return RecordChunk(chunk.partition, olds, chunk.timestamps, chunk.bounds, data.data)


def _only(chunk: RecordChunk, numbers: Longs) -> RecordChunk:
    if not len(numbers):
        return chunk.cut(0, 0)
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    pieces = [chunk.cut(int(some[0]), int(some[-1]) + 1) for some in np.split(numbers, breaks)]
    if len(pieces) == 1:
        return pieces[0]
    sizes = np.concatenate([np.diff(piece.bounds) for piece in pieces])
    return RecordChunk(
        chunk.partition,
        np.concatenate([piece.offsets for piece in pieces]),
        np.concatenate([piece.timestamps for piece in pieces]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        memoryview(b"".join(piece.data for piece in pieces)),
    )


def as_create_time(run: RecordRun) -> RecordRun:
    """Stored records with LogAppendTime as a restore writes them: with CreateTime (B8)."""
    places = run.bounds[:-1, None] + np.arange(OFFSET_BYTES, OFFSET_BYTES + KIND_BYTES)
    stamped = (run.data[places] == LOG_APPEND).all(axis=1)
    if not stamped.any():
        return run
    data = run.data.copy()
    data[places[stamped]] = 0
    return RecordRun(run.offsets, run.bounds, data)


@dataclass(frozen=True, slots=True)
class CompareWork:
    """Compares ranges in tasks, as a `RangeWork`."""

    stored: Mapping[int, Sequence[StoredSegment]]
    maps: Mapping[int, OffsetMap] | None = None
    """The offset maps of a restored topic, by partition."""
    alone: bool = True
    """Whether the restore should be the only writer of the topic."""

    def __call__(
        self, client: ReadClient, wanted: LogRange, attempt: int, seconds: float
    ) -> Iterator[str]:
        """The `Differences` of one range, as JSON; every attempt finds the same."""
        del attempt
        number = wanted.partition.partition
        offsets = self.maps.get(number) if self.maps else None
        comparison = StretchComparison(
            number, self.stored.get(number, ()), offsets, alone=self.alone
        )
        with closing(chunks_in(client, wanted, seconds)) as chunks:
            for chunk in chunks:
                comparison.take(chunk)
        yield comparison.found.to_json()


@dataclass(frozen=True, slots=True)
class TopicSides:
    """The two sides of a comparison: a topic and stored segments."""

    topic: TopicIdentity
    sources: Mapping[int, PartitionSource]
    stored: Mapping[int, Sequence[StoredSegment]]
    maps: Mapping[int, OffsetMap] | None = None
    """The offset maps of a restored topic, by partition."""
    alone: bool = True
    """Whether the restore should be the only writer of the topic."""


def compare_topic(run: BackupRun, sides: TopicSides, ranges: Ranges) -> list[Differences]:
    """The differences between *ranges* of the topic and the stored segments, by task.

    Raises:
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    if not ranges:
        return []
    whole = [
        range_of(sides.topic, sides.sources[number], start, end)
        for number, (start, end) in ranges.items()
    ]
    stored = {number: sides.stored[number] for number in ranges}
    work = CompareWork(stored, sides.maps, alone=sides.alone)
    answers = run_tasks(run, divided(whole, run.cores()), sides.topic.cluster_id, work)
    return [Differences.from_json(text) for _, text in answers]
