"""Messages of formats 0 and 1 as brokers keep them, built by kafka-python or by hand."""

import struct
import zlib
from collections.abc import Sequence

from kafka.record.legacy_records import LegacyRecordBatchBuilder

from breakglass.services.record_batches import Compression, Record, with_right_checksum
from tests.unit.topic_backup.batch_bytes import LOG_APPEND, compress

DESCRIPTOR_CHECKSUM_AT = 6
"""In an LZ4 frame that does not say how large its content is."""


def message_set(records: Sequence[Record], magic: int) -> bytes:
    """The *records* as messages that are not compressed."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=2**31)
    for record in records:
        stamp = -1 if record.timestamp is None else record.timestamp
        builder.append(record.offset, stamp, record.key, record.value)
    return bytes(builder.build())


def wrapped(
    records: Sequence[Record], magic: int, compression: Compression, *, append_ms: int | None = None
) -> bytes:
    """The *records* as one compressed message; stamped by the broker where it says when."""
    base = records[0].offset if magic == 1 else 0
    within = [record._replace(offset=record.offset - base) for record in records]
    packed = compress(compression, message_set(within, magic))
    if compression is Compression.LZ4:
        packed = independent(packed) if magic == 1 else broken(independent(packed))
    attributes = int(compression) | (0 if append_ms is None else LOG_APPEND)
    stamp = max(record.timestamp or 0 for record in records) if append_ms is None else append_ms
    return sealed(records[-1].offset, magic, attributes, stamp, None, packed)


def sealed(
    offset: int, magic: int, attributes: int, stamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    """One message with its length and its CRC put right."""
    time = struct.pack(">q", stamp) if magic == 1 else b""
    return with_crc(offset, bytes([magic, attributes]) + time + field(key) + field(value))


def with_crc(offset: int, content: bytes) -> bytes:
    """A message of which everything from its magic on is *content*."""
    return struct.pack(">qiI", offset, 4 + len(content), zlib.crc32(content)) + content


def field(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def independent(frame: bytes) -> bytes:
    """The LZ4 *frame*, of one block, as one whose blocks need no others: Kafka reads no other."""
    return with_right_checksum(frame[:4] + bytes([frame[4] | 0x20]) + frame[5:])


def broken(frame: bytes) -> bytes:
    """The LZ4 *frame* with another checksum of its head, as Kafka wrote it before 0.10."""
    at = DESCRIPTOR_CHECKSUM_AT + (8 if frame[4] & 0x08 else 0)
    return frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]
