"""The restore of one partition as a task of Spark: its input, its result, and its records."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from breakglass.services.errors import PipelineError
from breakglass.services.pipeline.batches.table import Longs
from breakglass.services.pipeline.stored_segments import RecordRun, StoredSegment, runs_between
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.topic_backup.record import decode, encode


class Hopeless(PipelineError):
    """The records cannot be restored, and a retry does not help."""


class ForeignRecords(Hopeless):
    """Another writer has written to a topic that only the restore may write."""


Spans = Sequence[tuple[int, int]]
"""Stored offsets ``[start, end)``, rising."""


def group_of(restore_id: str) -> str:
    """The group of one restore."""
    return f"breakglass-restore-{restore_id}"


def transactional_id_of(restore_id: str, topic: str, partition: int) -> str:
    """The transactional id under which one restore writes one partition, at each resume again."""
    return f"{group_of(restore_id)}-{topic}-{partition}"


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """One partition to restore."""

    topic: str
    partition: int
    spans: Spans
    segments: Sequence[StoredSegment]
    restore_id: str
    log: str
    """The offset log, which announces each transaction."""
    records_a_transaction: int
    transactional: bool = True
    alone: bool = True
    """The restore is the only writer of the target: records that are not adjacent are an error."""

    @property
    def group(self) -> str:
        """The group whose committed offsets are the restore progress."""
        return group_of(self.restore_id)

    @property
    def transactional_id(self) -> str:
        return transactional_id_of(self.restore_id, self.topic, self.partition)

    @property
    def where(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def log_path(self) -> Path:
        return Path(self.log)

    def runs(self, start: int) -> Iterator[RecordRun]:
        """The records to restore, from the stored offset *start* on."""
        return runs_within(self.segments, self.spans, start)


def runs_within(
    segments: Sequence[StoredSegment], spans: Spans, start: int = 0
) -> Iterator[RecordRun]:
    """The stored records of *spans* from offset *start* on."""
    first = 0
    for begin, end in spans:
        # There may be as many spans as records: each looks at its own segments alone.
        while first < len(segments) and segments[first].last_offset < max(begin, start):
            segments[first].passed()
            first += 1
        behind = bisect_left(segments, end, first, key=lambda segment: segment.first_offset)
        if end > start:
            yield from runs_between(segments[first:behind], max(begin, start), end)


@dataclass(slots=True)
class PartitionRestored:
    """The result of one task."""

    partition: int
    records: int = 0
    """Records that this attempt produced."""
    bytes: int = 0
    error: str = ""
    """Why the partition cannot be restored, if a retry does not help."""
    foreign: bool = False
    """Whether the error is a foreign record."""


NO_TIMESTAMP = -1
LOG_APPEND_TIME = "log append time"
"""The broker had set the timestamp; the restored record has it as create time."""
WITHOUT_TIMESTAMP = "no timestamp"


def declared_of(types: Longs) -> dict[str, int]:
    """Records whose timestamp *types* a producer cannot keep, by the difference (B9)."""
    stamped = int(np.count_nonzero(types == TimestampType.LOG_APPEND))
    without = int(np.count_nonzero(types < TimestampType.CREATE))
    found = {LOG_APPEND_TIME: stamped, WITHOUT_TIMESTAMP: without}
    return {what: count for what, count in found.items() if count}


def as_restored(record: Record) -> Record:
    """*record* as a restore writes it: always with a create time."""
    timestamp = NO_TIMESTAMP if record.timestamp is None else record.timestamp
    return record._replace(timestamp_type=TimestampType.CREATE, timestamp=timestamp)


def restored_bytes(data: bytes) -> bytes:
    """An encoded record as a restore writes it."""
    record, _ = decode(data, 0, len(data), len(data))
    return encode(as_restored(record))
