"""Reads messages that were written before Kafka 0.11 (message formats 0 and 1).

::

    Message =>
      Offset     => int64
      Size       => int32    bytes after this field
      CRC        => uint32   CRC-32 of everything after this field
      Magic      => int8     0 or 1
      Attributes => int8     0-2 compression, 3 log append time
      Timestamp  => int64    in format 1; -1: the producer gave none
      Key        => int32 length (-1: null), bytes
      Value      => int32 length (-1: null), bytes

The value of a compressed message is a set of messages; its offset is that of the last of them.
Inside the set, offsets are absolute in format 0, and relative to any start in format 1.
kafka-python's classes are not used: they need a library for each codec, decompress without a
limit, and silently drop incomplete messages. Source: LegacyRecord.java,
AbstractLegacyRecordBatch.java.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from breakglass.services.errors import MalformedMessage
from breakglass.services.topic_backup.batches import (
    COMPRESSION_MASK,
    LENGTH_END,
    LOG_APPEND_MASK,
    MAGIC_AT,
    MAX_BATCH_BYTES,
    SMALLEST_MESSAGE,
    BatchHeader,
)
from breakglass.services.topic_backup.compression import (
    Compression,
    decompress,
    with_right_checksum,
)
from breakglass.services.topic_backup.record import LENGTH, TIMESTAMP, Record, TimestampType

_HEAD = struct.Struct(
    ">q"  # Offset     => int64
    "i"  # Size       => int32
    "I"  # CRC        => uint32
    "b"  # Magic      => int8
    "b"  # Attributes => int8
)
NONE = -1
"""Stands for a missing timestamp, epoch or producer."""


@dataclass(frozen=True, slots=True)
class _Message:
    """One message; if it is compressed, its content is a set of messages."""

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NONE
        log_append = self.attributes & LOG_APPEND_MASK
        return TimestampType.LOG_APPEND if log_append else TimestampType.CREATE


def message_header(data: bytes, position: int, size: int, where: str) -> BatchHeader:
    """Read a message as a batch of all its records: a `batches.OlderHeader`.

    Raises:
        MalformedMessage: the CRC differs, or the bytes are not messages.
    """
    message = _read(data, position, size, where)
    records = _records(message, where)
    return BatchHeader(
        base_offset=records[0].offset,
        last_offset=message.offset,
        leader_epoch=NONE,
        crc=message.crc,
        compression=message.compression,
        timestamp_type=message.timestamp_type,
        base_timestamp=message.timestamp,
        max_timestamp=message.timestamp,
        producer_id=NONE,
        producer_epoch=NONE,
        base_sequence=NONE,
        transactional=False,
        control=False,
        count=len(records),
        position=position,
        size=size,
        magic=message.magic,
    )


def message_records(data: bytes, header: BatchHeader, where: str) -> tuple[Record, ...]:
    """The records of the message that `message_header` read. Raises like `message_header`."""
    return _records(_read(data, header.position, header.size, where), where)


def _read(data: bytes, position: int, size: int, where: str) -> _Message:
    offset, _, crc, magic, attributes = _HEAD.unpack_from(data, position)
    spot = f"{where}, message at offset {offset}"
    if zlib.crc32(memoryview(data)[position + MAGIC_AT : position + size]) != crc:
        raise MalformedMessage(
            f"{spot}: its CRC differs, so its bytes are damaged on the broker's disk or on the "
            "way; read it again or from another replica."
        )
    if magic not in (0, 1):
        raise _malformed(spot, f"it has message format {magic} within an older one")
    try:
        timestamp, key, value = _content(data[position + _HEAD.size : position + size], magic)
    except (struct.error, ValueError) as error:
        raise _malformed(spot, f"its fields do not fit into its {size} bytes ({error})") from None
    return _Message(offset, crc, magic, attributes, timestamp, key, value)


def _content(content: bytes, magic: int) -> tuple[int, bytes | None, bytes | None]:
    """Timestamp, key and value. Raises struct.error or ValueError if bytes are left or missing."""
    timestamp, at = NONE, 0
    if magic == 1:
        (timestamp,) = TIMESTAMP.unpack_from(content)
        at = TIMESTAMP.size
    key, at = _bytes(content, at)
    value, at = _bytes(content, at)
    if at != len(content):
        raise ValueError(f"{len(content) - at} bytes are left")
    return timestamp, key, value


def _bytes(content: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = LENGTH.unpack_from(content, at)
    begin = at + LENGTH.size
    if size == -1:
        return None, begin
    if not 0 <= size <= len(content) - begin:
        raise ValueError(f"a field claims {size}")
    return content[begin : begin + size], begin + size


def _records(message: _Message, where: str) -> tuple[Record, ...]:
    """The records of *message*: at least one, with rising offsets."""
    if message.compression == Compression.NONE:
        return (_record(message, message.offset, message),)
    spot = f"{where}, message at offset {message.offset}"
    messages = tuple(_within(message, spot))
    if not messages:
        raise _malformed(spot, "it is compressed, and holds no messages")
    # Format 1 has relative inner offsets (KIP-31): the outer offset is that of the last message.
    base = message.offset - messages[-1].offset if message.magic == 1 else 0
    records = tuple(_record(one, base + one.offset, message) for one in messages)
    rising = all(one.offset < after.offset for one, after in pairwise(records))
    if not rising or min(base, records[0].offset) < 0 or records[-1].offset > message.offset:
        raise _malformed(spot, "the offsets of the messages within it cannot be")
    return records


def _within(message: _Message, spot: str) -> Iterator[_Message]:
    """The messages in a compressed message; like clients, skips an incomplete last message."""
    if message.value is None:
        raise _malformed(spot, "it is compressed, and has no value")
    if message.compression > Compression.LZ4:
        raise _malformed(spot, f"its format has no compression type {message.compression}")
    value = message.value
    # Only format 0 has the wrong header checksum: it was corrected with format 1 (KAFKA-3160).
    if message.magic == 0 and message.compression == Compression.LZ4:
        value = with_right_checksum(value)
    content, at = decompress(message.compression, value, MAX_BATCH_BYTES, spot), 0
    while at + LENGTH_END <= len(content):
        (length,) = LENGTH.unpack_from(content, at + LENGTH_END - LENGTH.size)
        size = LENGTH_END + int(length)
        if size < SMALLEST_MESSAGE:
            raise _malformed(spot, f"a message within it claims {size} bytes")
        if at + size > len(content):
            return
        inner = _read(content, at, size, spot)
        if inner.compression != Compression.NONE:
            raise _malformed(spot, "a message within it is compressed, too")
        yield inner
        at += size


def _record(message: _Message, offset: int, outer: _Message) -> Record:
    """The record of *message*; the *outer* message says what its timestamp means."""
    kind = TimestampType.NONE if message.magic == 0 else outer.timestamp_type
    stamp: int | None = None
    if kind.stamped:
        # With LogAppendTime, the broker sets only the outer message's timestamp.
        stamp = (outer if kind is TimestampType.LOG_APPEND else message).timestamp
    return Record(offset, kind, stamp, message.key, message.value)


def _malformed(spot: str, reason: str) -> MalformedMessage:
    return MalformedMessage(f"{spot}: {reason}; read it from another replica.")
