"""Copies records without Spark, decoded one by one: what is too little for a job.

Every field is kept as the log has it. One core, in Python: slow, and only for what needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

import numpy as np

from services.pipeline.committed_log import CommittedLog
from services.pipeline.part_writer import PartTarget, PartTask, RecordChunk
from services.topic_backup.folder import storage_errors
from services.topic_backup.part import SegmentPart
from services.topic_backup.record import Record, encode

RECORDS_A_CHUNK = 2_000
UNSTAMPED = -1
"""The timestamp, in a chunk, of a record without one."""


def copy_exactly(log: CommittedLog, start: int, end: int, target: PartTarget) -> list[SegmentPart]:
    """Copy the committed records with offsets in ``[start, end)``; returns their parts.

    Raises:
        StorageError: nothing more can be written.
        ClusterError, Unreachable: the leader cannot be read.
    """
    with storage_errors(target.folder.where()), PartTask(target, attempt=0) as task:
        chunks = exact_chunks(log, start, end)
        parts = [part for chunk in chunks for part in task.take(chunk)]
        return [*parts, *task.finish()]


def copy_chosen(
    log: CommittedLog, offsets: Collection[int], target: PartTarget
) -> list[SegmentPart]:
    """Copy the committed records at these *offsets* alone; returns their parts. Raises as above."""
    wanted = frozenset(offsets)
    records = log.records(min(wanted), max(wanted) + 1)
    chosen = (one for one in records if one.offset in wanted)
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
        stamps = [UNSTAMPED if one.timestamp is None else one.timestamp for one in some]
        yield RecordChunk(
            partition=partition,
            offsets=np.array([record.offset for record in some], np.int64),
            timestamps=np.array(stamps, np.int64),
            bounds=np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            data=memoryview(b"".join(encoded)),
        )
