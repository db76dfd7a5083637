"""What a stream that is compared consists of: entries, and stretches that could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from breakglass.services.divergence.content import (
    NO_HEADERS,
    Content,
    HeaderList,
    Keep,
    content_of,
    headers_of,
)
from breakglass.services.topic_backup.batches import Marker, RecordBatch
from breakglass.services.topic_backup.record import Record, TimestampType

NO_PRODUCER = -1


class RecordField(StrEnum):
    """What two entries at one address can differ in."""

    EPOCH = "epoch"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    TYPE = "type"
    """Of the timestamp: set by the producer, or on append."""
    MARKER = "marker"
    """A record on one side and a transaction marker on the other, or two kinds of markers."""


class RecordEntry(NamedTuple):
    """One record. A tuple, because there are millions of them."""

    offset: int
    """The address: streams are ordered by it, and each has it once."""
    epoch: int | None
    """The leader epoch that wrote it; None where the source does not keep it."""
    timestamp_type: TimestampType
    timestamp: int | None
    """Milliseconds since the epoch; None for a record without one."""
    key: Content | None
    value: Content | None
    headers: HeaderList = NO_HEADERS
    marker: Marker | None = None
    """What a control record says; None for data."""
    producer_id: int = NO_PRODUCER
    """Of an idempotent or transactional producer."""
    transactional: bool = False

    @property
    def size(self) -> int:
        """Bytes of key, value and the headers that are kept."""
        return (
            (self.key.size if self.key else 0)
            + (self.value.size if self.value else 0)
            + self.headers.size
        )


@dataclass(frozen=True, slots=True)
class UnreadableRange:
    """The addresses ``[start, end)`` of a stream, which could not be read."""

    start: int
    end: int
    reason: str
    """One sentence: what is wrong, and what can be done."""


Item = RecordEntry | UnreadableRange


def address(item: Item) -> int:
    """Where *item* is in its stream, or begins."""
    return item.offset if isinstance(item, RecordEntry) else item.start


def entry_of(record: Record, batch: RecordBatch, keep: Keep) -> RecordEntry:
    """One record of *batch*, held in a bounded number of bytes."""
    header = batch.header
    return RecordEntry(
        record.offset,
        header.leader_epoch if header.leader_epoch >= 0 else None,
        record.timestamp_type,
        record.timestamp,
        content_of(record.key, keep.value),
        content_of(record.value, keep.value),
        headers_of(record.headers, keep),
        batch.marker,
        header.producer_id,
        header.transactional,
    )


def differing(left: RecordEntry, right: RecordEntry) -> tuple[RecordField, ...]:
    """The fields in which two entries of one address differ; empty when they are the same.

    An epoch that one of the sources does not keep tells nothing.
    """
    if left == right:
        return ()
    told = {
        RecordField.EPOCH: None not in (left.epoch, right.epoch) and left.epoch != right.epoch,
        RecordField.KEY: left.key != right.key,
        RecordField.VALUE: left.value != right.value,
        RecordField.HEADERS: left.headers != right.headers,
        RecordField.TIMESTAMP: left.timestamp != right.timestamp,
        RecordField.TYPE: left.timestamp_type != right.timestamp_type,
        RecordField.MARKER: left.marker != right.marker,
    }
    return tuple(field for field, differs in told.items() if differs)
