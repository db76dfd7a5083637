"""One partition that is to be restored, as a task of Spark is given it, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from services.errors import PipelineError
from services.pipeline.batches.varints import Longs
from services.pipeline.stored_segments import RecordRun, StoredSegment, runs_between
from services.topic_backup.record import Record, TimestampType, decode, encode


class Hopeless(PipelineError):
    """The records cannot be restored, however often it is tried."""


class ForeignRecords(Hopeless):
    """Somebody else has written into a topic that is to be the restore's alone."""


Spans = Sequence[tuple[int, int]]
"""Stored offsets ``[start, end)``, rising."""


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """One partition that is to be restored."""

    topic: str
    """The target."""
    partition: int
    spans: Spans
    segments: Sequence[StoredSegment]
    restore_id: str
    log: str
    """File that each transaction is announced in."""
    records_a_transaction: int
    transactional: bool = True
    alone: bool = True
    """Nobody else writes into the target: a restored record that is not next to the one before it
    is an error."""

    @property
    def group(self) -> str:
        """Whose offsets say how far the restore is."""
        return f"breakglass-restore-{self.restore_id}"

    @property
    def transactional_id(self) -> str:
        return f"{self.group}-{self.topic}-{self.partition}"

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"{self.topic}-{self.partition}"

    @property
    def log_path(self) -> Path:
        return Path(self.log)

    def runs(self, start: int) -> Iterator[RecordRun]:
        """The records that are to be restored, from the stored offset *start* on."""
        return runs_within(self.segments, self.spans, start)


def runs_within(
    segments: Sequence[StoredSegment], spans: Spans, start: int = 0
) -> Iterator[RecordRun]:
    """The stored records of *spans* from offset *start* on."""
    for begin, end in spans:
        if end > start:
            yield from runs_between(segments, max(begin, start), end)


@dataclass(slots=True)
class PartitionRestored:
    """What became of it."""

    partition: int
    records: int = 0
    """Produced by this attempt."""
    bytes: int = 0
    error: str = ""
    """Why it cannot go on, where trying again is of no use."""
    foreign: bool = False
    """The error is that somebody else has written into the topic."""

    def to_json(self) -> str:
        """As it comes back from a task."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` made."""
        return cls(**json.loads(text))


NO_TIMESTAMP = -1
LOG_APPEND_TIME = "log append time"
"""Stamped by the broker then; restored as create time."""
WITHOUT_TIMESTAMP = "no timestamp"


def declared_of(types: Longs) -> dict[str, int]:
    """How many records of these timestamp *types* cannot be kept, by what is different of them."""
    stamped = int(np.count_nonzero(types == TimestampType.LOG_APPEND))
    without = int(np.count_nonzero(types < TimestampType.CREATE))
    found = {LOG_APPEND_TIME: stamped, WITHOUT_TIMESTAMP: without}
    return {what: count for what, count in found.items() if count}


def as_restored(record: Record) -> Record:
    """*record* as it is in a topic after its restore: with what cannot be kept."""
    timestamp = NO_TIMESTAMP if record.timestamp is None else record.timestamp
    return record._replace(timestamp_type=TimestampType.CREATE, timestamp=timestamp)


def restored_bytes(data: bytes) -> bytes:
    """The same of one encoded record."""
    record, _ = decode(data, 0, len(data), len(data))
    return encode(as_restored(record))
