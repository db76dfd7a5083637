"""Record batches as brokers keep them, built by kafka-python's encoder and a header of our own."""

import gzip
import struct
from collections.abc import Sequence

import cramjam
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from breakglass.services.record_batches import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    Compression,
    Record,
    TimestampType,
)

LOG_APPEND, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    epoch: int = 5,
    compression: Compression = Compression.NONE,
    flags: int = 0,
    max_timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """One batch: the bytes a Fetch response has for it."""
    base = base_offset if base_offset is not None else records[0].offset
    stamps = [record.timestamp or 0 for record in records] or [0]
    payload = compress(compression, encoded(records, base))
    return sealed(
        base,
        len(payload),
        epoch,
        2,
        0,
        int(compression) | flags,
        (last_offset if last_offset is not None else records[-1].offset) - base,
        stamps[0],
        max(stamps) if max_timestamp is None else max_timestamp,
        *producer,
        len(records),
        payload=payload,
    )


def sealed(base: int, size: int, *fields: int, payload: bytes) -> bytes:
    """A batch of header *fields* with its length and its CRC put right."""
    length = BATCH_HEADER.size - 12 + size
    content = bytearray(BATCH_HEADER.pack(base, length, *fields) + payload)
    struct.pack_into(">I", content, ATTRIBUTES_AT - 4, calc_crc32c(bytes(content[ATTRIBUTES_AT:])))
    return bytes(content)


def encoded(records: Sequence[Record], base: int) -> bytes:
    """The records of a batch, not compressed."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**31)
    for record in records:
        headers = [(key.decode(), value) for key, value in record.headers]
        stamp = record.timestamp or 0
        builder.append(record.offset - base, stamp, record.key, record.value, headers)
    content: bytes = bytes(builder.build())[BATCH_HEADER.size :]
    return content


def compress(compression: Compression, content: bytes) -> bytes:
    """*content* by a codec, as Java producers frame it."""
    if compression is Compression.GZIP:
        return gzip.compress(content)
    if compression is Compression.SNAPPY:
        return XERIAL + b"".join(map(xerial_block, chunks(content)))
    if compression is Compression.LZ4:
        return bytes(cramjam.lz4.compress(content))
    if compression is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(content))
    return content


def chunks(content: bytes) -> list[bytes]:
    """*content* in the 32 KiB blocks of the xerial framing."""
    return [content[at : at + 32 * 1024] for at in range(0, len(content), 32 * 1024)]


def xerial_block(content: bytes) -> bytes:
    """One block with its length."""
    packed = bytes(cramjam.snappy.compress_raw(content))
    return struct.pack(">i", len(packed)) + packed


def control_record(offset: int, kind: int, coordinator_epoch: int = 3) -> Record:
    """What ends a transaction: 0 abort, 1 commit."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch)
    return Record(offset, TimestampType.CREATE, 1_700_000_000_000, key, value)


LYING = {
    "nothing": b"",
    "a number is cut": bytes(7),
    "shorter than it says": b"\x0e" + bytes(7),
    "2 GiB": b"\xfe\xff\xff\xff\x0f" + bytes(9),
    "-1 bytes": b"\x01" + bytes(9),
    "a number of more than 32 bits": b"\xff\xff\xff\xff\xff\x01" + bytes(9),
    "an offset past the last": b"\x0c\x00\x00\xd2\x0f\x01\x01\x00",
    "an offset before the first": b"\x0c\x00\x00\x01\x01\x01\x00",
    "a field of -2 bytes": b"\x0c\x00\x00\x00\x03\x01\x00",
    "a field of 63 bytes": b"\x0c\x00\x00\x00\x01\x7e\x00",
    "-1 headers": b"\x0c\x00\x00\x00\x01\x01\x01",
    "64 headers": b"\x0e\x00\x00\x00\x01\x01\x80\x01",
    "a header key that is null": b"\x10\x00\x00\x00\x01\x01\x02\x01\x00",
    "a second record": b"\x0c\x00\x00\x00\x01\x01\x00" * 2,
    "longer than it says": b"\x0e\x00\x00\x00\x01\x01\x00\x00",
}
"""The payload of a batch of one record, by what is wrong with it."""
