"""The headers of record batches as a broker sends them (message format v2).

::

    RecordBatch =>
      BaseOffset           => int64
      BatchLength          => int32    bytes after this field
      PartitionLeaderEpoch => int32    the epoch that wrote the batch
      Magic                => int8     2
      CRC                  => uint32   CRC-32C of everything after this field
      Attributes           => int16    0-2 compression, 3 log append time, 4 transactional,
                                       5 control, 6 delete horizon
      LastOffsetDelta      => int32    kept by compaction, so the last record may be older
      BaseTimestamp        => int64
      MaxTimestamp         => int64    the time of every record, under log append time
      ProducerId           => int64    -1: none
      ProducerEpoch        => int16
      BaseSequence         => int32    -1: none
      RecordsCount         => int32
      Records              => [Record]   compressed as one

Source: DefaultRecordBatch.java.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from breakglass.services.errors import MalformedMessage
from breakglass.services.topic_backup.record import TimestampType

BATCH_HEADER = struct.Struct(
    ">q"  # BaseOffset           => int64
    "i"  # BatchLength          => int32
    "i"  # PartitionLeaderEpoch => int32
    "b"  # Magic                => int8
    "I"  # CRC                  => uint32
    "h"  # Attributes           => int16
    "i"  # LastOffsetDelta      => int32
    "q"  # BaseTimestamp        => int64
    "q"  # MaxTimestamp         => int64
    "q"  # ProducerId           => int64
    "h"  # ProducerEpoch        => int16
    "i"  # BaseSequence         => int32
    "i"  # RecordsCount         => int32
)
LENGTH_END = struct.calcsize(">qi")
MAGIC_AT = struct.calcsize(">qii")
ATTRIBUTES_AT = struct.calcsize(">qiibI")
"""Where the bytes begin that the CRC covers."""

MAGIC = 2
COMPRESSION_MASK = 0x07
LOG_APPEND_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The fields of a batch without its records."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    """The epoch of the leader that wrote the batch, by which logs are ranked (R8)."""
    crc: int
    compression: int
    """The codec's number, which may be unknown."""
    timestamp_type: TimestampType
    base_timestamp: int
    max_timestamp: int
    """Milliseconds; -1: the batch has no timestamps."""
    producer_id: int
    """-1: neither idempotent nor transactional."""
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    count: int
    """Number of records; compaction can leave 0."""
    position: int
    """Where the batch begins in the fetched bytes."""
    size: int
    """Size in bytes, with the header."""
    magic: int = MAGIC
    """The message format."""

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    def sequence(self, offset: int) -> int | None:
        """The producer's sequence number of the record at *offset*; None if it has none."""
        if self.base_sequence < 0:
            return None
        return (self.base_sequence + offset - self.base_offset) & 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Fetched:
    """The batches of one partition in a Fetch response."""

    headers: tuple[BatchHeader, ...]
    cut_batch: int | None
    """Size of the incomplete batch at the end, if known; a fetch of that many bytes returns it
    whole.
    """
    cut_bytes: int
    """Bytes at the end that are not a complete batch."""


OlderHeader = Callable[[bytes, int, int, str], BatchHeader]
"""Reads a format 0 or 1 message; takes the bytes, its position, its size and a name for errors."""
SMALLEST_MESSAGE = 26
"""Size of a format 0 message without key and value."""


def read_headers(data: bytes, where: str, older: OlderHeader | None = None) -> Fetched:
    """Read the headers of the batches in *data* without decoding records.

    Brokers cut the last batch off at the fetch's size limit, so an incomplete last batch is not an
    error. *where* names broker and partition for messages. *older* reads formats 0 and 1.

    Raises:
        MalformedMessage: a batch has an unknown message format, or an older one without *older*;
            or a length is invalid.
    """
    headers: list[BatchHeader] = []
    position = 0
    while position + LENGTH_END <= len(data):
        size = _batch_size(data, position, where, older=older is not None)
        if position + size > len(data):
            return Fetched(tuple(headers), size, len(data) - position)
        read = older if older and data[position + MAGIC_AT] < MAGIC else _header
        headers.append(read(data, position, size, where))
        position += size
    return Fetched(tuple(headers), None, len(data) - position)


def _batch_size(data: bytes, position: int, where: str, *, older: bool) -> int:
    _, length = struct.unpack_from(">qi", data, position)
    size = LENGTH_END + int(length)
    # Without its magic byte, the batch is incomplete and may have any format.
    magic = data[position + MAGIC_AT] if position + MAGIC_AT < len(data) else 0 if older else MAGIC
    if magic > MAGIC or (magic < MAGIC and not older):
        raise MalformedMessage(
            f"{where}: byte {position} of the fetched bytes begins a batch of message format "
            f"{magic}, only {'0 to 2' if older else '2'} can be read; copy that log directory "
            "instead."
        )
    if size < (BATCH_HEADER.size if magic == MAGIC else SMALLEST_MESSAGE):
        raise MalformedMessage(
            f"{where}: byte {position} of the fetched bytes claims a batch of {size} bytes; "
            "check that log segment on the broker."
        )
    return size


def _header(data: bytes, position: int, size: int, where: str) -> BatchHeader:
    fields = BATCH_HEADER.unpack_from(data, position)
    base_offset, _, leader_epoch, _, crc, attributes, last_delta, base_time, max_time = fields[:9]
    producer_id, producer_epoch, base_sequence, count = fields[9:]
    if base_offset < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1:
        raise MalformedMessage(
            f"{where}: the batch at byte {position} of the fetched bytes claims {count} records "
            f"over {last_delta + 1} offsets from {base_offset}; check that log segment on the "
            "broker."
        )
    log_append = attributes & LOG_APPEND_MASK
    return BatchHeader(
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        leader_epoch=leader_epoch,
        crc=crc,
        compression=attributes & COMPRESSION_MASK,
        timestamp_type=TimestampType.LOG_APPEND if log_append else TimestampType.CREATE,
        base_timestamp=base_time,
        max_timestamp=max_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=bool(attributes & TRANSACTIONAL_MASK),
        control=bool(attributes & CONTROL_MASK),
        count=count,
        position=position,
        size=size,
    )
