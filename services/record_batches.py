"""Reads record batches as a broker sends them: headers and records, compressed or not.

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

    Record =>
      Length         => varint    bytes after this field
      Attributes     => int8      unused
      TimestampDelta => varlong
      OffsetDelta    => varint
      Key            => varint length (-1: null), bytes
      Value          => varint length (-1: null), bytes
      HeaderCount    => varint
      Headers        => [HeaderKey varint length, bytes; HeaderValue varint length (-1), bytes]

Source: DefaultRecordBatch.java, DefaultRecord.java. Bytes from the network are not trusted: lengths
are checked before reading, checksums before decompressing, and decompression is bounded.

Snappy is either framed as by Java producers (xerial: a header, then length-prefixed blocks) or one
raw block; LZ4 and Zstandard are frames. Producers before Kafka 0.10 wrote a wrong checksum in the
header of LZ4 frames (KAFKA-3160). Source: CompressionType.java and its codecs.

Messages that were written before Kafka 0.11 have formats 0 and 1.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple, Protocol

from breakglass.services.errors import MalformedMessage

MAX_HEADERS = 1_000_000
"""Maximum number of headers of a record: each needs at least a hundred bytes of memory."""

Headers = tuple[tuple[bytes, bytes | None], ...]
"""The key and value of each header, in order, with duplicates."""


class TimestampType(IntEnum):
    """What a record's timestamp means, by its number on disk."""

    CREATE_NULL = -2
    """Create time with a null timestamp (kafka-backup#92)."""
    NONE = -1
    CREATE = 0
    LOG_APPEND = 1

    @property
    def stamped(self) -> bool:
        """Whether a timestamp follows on disk."""
        return self >= TimestampType.CREATE


class Record(NamedTuple):
    """One record; a tuple, because a backup has millions of them."""

    offset: int
    timestamp_type: TimestampType
    timestamp: int | None
    """Milliseconds since the epoch; None only for NONE and CREATE_NULL."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = struct.Struct(
    ">8s"  # Magic
    "i"  # Version
    "i"  # CompatibleVersion
)
BLOCK_LENGTH = struct.Struct(">i")
TIMESTAMP = struct.Struct(">q")
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_WITH_SIZE = 0x08
"""Flag in the first byte after the magic: the content's size follows the second byte."""
LZ4_SIZE_BYTES = 8

FIRST_GUESS = 16
"""Initial guess for the ratio of output to input; it grows if the output does not fit."""


class Compression(IntEnum):
    """The codecs, by their number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(number: int, data: bytes, limit: int, spot: str) -> bytes:
    """Decompress *data* with codec *number* to at most *limit* bytes.

    Raises MalformedMessage: the codec is unknown, the bytes are invalid, or *limit* is exceeded.
    """
    import cramjam

    try:
        codec = Compression(number)
        if codec is Compression.SNAPPY:
            output = bytearray()
            for block in _snappy_blocks(data):
                output += _snappy_block(block, limit - len(output))
            return bytes(output)
        return _stream(getattr(cramjam, codec.name.lower()), data, limit)
    except ValueError:
        reason = f"compression type {number} is not known"
    except (cramjam.DecompressionError, struct.error) as error:
        reason = f"it cannot be decompressed ({error})"
    except _TooLarge:
        reason = f"it decompresses to more than {limit} bytes"
    raise MalformedMessage(f"{spot}: {reason}; read it from another replica.")


class _TooLarge(Exception):
    pass


class _Codec(Protocol):
    def decompress_into(self, data: bytes, output: bytearray, /) -> int: ...


def _stream(codec: _Codec, data: bytes, limit: int) -> bytes:
    """Decompress into buffers that grow up to *limit*, because the output's size is unknown.

    The codec fails when the buffer is full, so a decompression bomb uses no more memory than
    *limit*.
    """
    from cramjam import DecompressionError

    size = min(limit, max(64 * 1024, len(data) * FIRST_GUESS))
    while True:
        output = bytearray(size)
        try:
            return bytes(memoryview(output)[: codec.decompress_into(data, output)])
        except DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
        if size == limit:
            raise _TooLarge
        size = min(limit, size * 8)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    if not data.startswith(XERIAL_MAGIC):
        yield data
        return
    at = XERIAL_HEADER.size
    while at < len(data):
        (size,) = BLOCK_LENGTH.unpack_from(data, at)
        at += BLOCK_LENGTH.size
        if not 0 <= size <= len(data) - at:
            raise struct.error(f"a block claims {size} bytes")
        yield data[at : at + size]
        at += size


def _snappy_block(block: bytes, limit: int) -> bytes:
    import cramjam

    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit:
        raise _TooLarge
    output = bytearray(size)
    written = cramjam.snappy.decompress_raw_into(block, output)
    return bytes(memoryview(output)[:written])


def with_right_checksum(frame: bytes) -> bytes:
    """The LZ4 *frame* with the header checksum that the codec expects.

    Bytes that are not a frame are returned unchanged; the codec rejects them.
    """
    begin = len(LZ4_MAGIC)
    if not frame.startswith(LZ4_MAGIC) or len(frame) <= begin + 2 + LZ4_SIZE_BYTES:
        return frame
    end = begin + 2 + (LZ4_SIZE_BYTES if frame[begin] & LZ4_WITH_SIZE else 0)
    checksum = _xxh32(frame[begin:end]) >> 8 & 0xFF
    return b"".join((frame[:end], bytes([checksum]), frame[end + 1 :]))


_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_WORD_BYTES = 4


def _xxh32(content: bytes) -> int:
    """XXH32 of fewer than 16 bytes, with seed 0."""
    first, second, third, fourth, fifth = _PRIMES
    words = len(content) // _WORD_BYTES
    value = fifth + len(content)
    for word in struct.unpack_from(f"<{words}I", content):
        value = _rotated(value + word * third, 17) * fourth
    for byte in content[words * _WORD_BYTES :]:
        value = _rotated(value + byte * fifth, 11) * first
    for shift, factor in ((15, second), (13, third), (16, 1)):
        value &= 0xFFFFFFFF
        value = (value ^ (value >> shift)) * factor
    return value & 0xFFFFFFFF


def _rotated(value: int, by: int) -> int:
    value &= 0xFFFFFFFF
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF


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
BATCH_LENGTH = struct.Struct(
    ">q"  # BaseOffset  => int64
    "i"  # BatchLength => int32   of what follows
)
LENGTH_END = BATCH_LENGTH.size
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
    _, length = BATCH_LENGTH.unpack_from(data, position)
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


CONTROL_KEY = struct.Struct(
    ">h"  # Version => int16
    "h"  # Type    => int16
)
CONTROL_VALUE = struct.Struct(
    ">h"  # Version          => int16
    "i"  # CoordinatorEpoch => int32
)

SMALLEST_RECORD = 7
"""Size of a record without key, value and headers."""
SMALLEST_HEADER = 2

MAX_BATCH_BYTES = 256 * 1024 * 1024
"""Maximum decompressed size of a batch."""
RECORD_COST, HEADER_COST = 200, 100
"""What a decoded record and one of its headers take, besides their bytes."""
MAX_DECODED_BYTES = 768 * 1024 * 1024
"""Maximum memory of a batch's records: a small batch can be compressed from millions of them."""


class ControlType(IntEnum):
    """The type of a control record (ControlRecordType.java)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a transaction, or another control record."""

    type: ControlType
    coordinator_epoch: int | None
    """The transaction coordinator's epoch; None for other control records."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One batch with its records."""

    header: BatchHeader
    records: tuple[Record, ...]
    marker: Marker | None
    """The marker of a control batch, whose records are not data."""


def decode_batch(
    data: bytes, header: BatchHeader, where: str, *, max_batch_bytes: int = MAX_BATCH_BYTES
) -> RecordBatch:
    """Decode the batch of *data* that *header* describes.

    Raises MalformedMessage: the CRC differs, or the bytes are not records.
    """
    spot = f"{where}, batch at offset {header.base_offset}"
    import google_crc32c

    covered = data[header.position + ATTRIBUTES_AT : header.position + header.size]
    if google_crc32c.value(covered) != header.crc:
        raise MalformedMessage(
            f"{spot}: its CRC differs, so its bytes are damaged on the broker's disk or on the "
            "way; read it again or from another replica."
        )
    start = header.position + BATCH_HEADER.size
    content = data[start : header.position + header.size]
    if header.compression != Compression.NONE:
        content = decompress(header.compression, content, max_batch_bytes, spot)
    records = _Records(content, header, spot).all()
    return RecordBatch(header, records, _marker(records) if header.control else None)


def _marker(records: tuple[Record, ...]) -> Marker | None:
    """The marker of a control batch; None if compaction removed its record."""
    if not records:
        return None
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < CONTROL_KEY.size:
        return Marker(ControlType.UNKNOWN, None)
    _, number = CONTROL_KEY.unpack_from(key)
    kind = ControlType(number) if number in set(ControlType) else ControlType.UNKNOWN
    if kind not in (ControlType.ABORT, ControlType.COMMIT) or len(value) < CONTROL_VALUE.size:
        return Marker(kind, None)
    return Marker(kind, CONTROL_VALUE.unpack_from(value)[1])


class _Records:
    """Parses the records of one batch; `position` is the next byte to read."""

    def __init__(self, content: bytes, header: BatchHeader, spot: str) -> None:
        self._content = content
        self._header = header
        self._spot = spot
        self._position = 0
        self._end = len(content)
        self._room = MAX_DECODED_BYTES - 2 * len(content) - header.count * RECORD_COST

    def all(self) -> tuple[Record, ...]:
        if self._header.count * SMALLEST_RECORD > len(self._content):
            raise self._malformed(f"{self._header.count} records do not fit into it")
        if self._room < 0:
            raise self._malformed(f"{self._header.count} records take more memory than a batch may")
        records = tuple(self._record() for _ in range(self._header.count))
        if self._position != len(self._content):
            raise self._malformed("bytes are left behind the last record")
        return records

    def _record(self) -> Record:
        length = self._varint()
        end = self._position + length
        if length < 0 or end > len(self._content):
            raise self._malformed(f"a record claims {length} bytes")
        self._end = end
        self._position += 1  # attributes, unused
        timestamp = self._timestamp(self._varint(bits=64))
        delta = self._varint()
        if not 0 <= delta <= self._header.last_offset - self._header.base_offset:
            raise self._malformed(f"a record lies {delta} offsets past its start")
        offset = self._header.base_offset + delta
        key, value = self._bytes(), self._bytes()
        headers = self._headers()
        if self._position != end:
            raise self._malformed(f"the record at offset {offset} has another length than it says")
        self._end = len(self._content)
        return Record(offset, self._header.timestamp_type, timestamp, key, value, headers)

    def _timestamp(self, delta: int) -> int:
        if self._header.timestamp_type is TimestampType.LOG_APPEND:
            return self._header.max_timestamp
        timestamp = self._header.base_timestamp + delta
        if not -(2**63) <= timestamp < 2**63:
            raise self._malformed(f"a timestamp cannot be {timestamp}")
        return timestamp

    def _headers(self) -> Headers:
        count = self._varint()
        if count == 0:
            return ()
        if not 0 < count <= MAX_HEADERS or count * SMALLEST_HEADER > self._end - self._position:
            raise self._malformed(f"a record claims {count} headers")
        self._room -= count * HEADER_COST
        if self._room < 0:
            raise self._malformed("its headers take more memory than a batch may")
        return tuple(self._record_header() for _ in range(count))

    def _record_header(self) -> tuple[bytes, bytes | None]:
        key = self._bytes()
        if key is None:
            raise self._malformed("a header key is null")
        return key, self._bytes()

    def _bytes(self) -> bytes | None:
        size = self._varint()
        if size == -1:
            return None
        end = self._position + size
        if size < 0 or end > self._end:
            raise self._malformed(f"a field claims {size} bytes")
        content = self._content[self._position : end]
        self._position = end
        return content

    def _varint(self, bits: int = 32) -> int:
        content, position, end = self._content, self._position, self._end
        if position < end and content[position] < 0x80:
            self._position = position + 1
            raw = content[position]
            return (raw >> 1) ^ -(raw & 1)
        raw = shift = 0
        while position < end and shift < bits:
            byte = content[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                if raw >> bits:
                    break
                self._position = position
                return (raw >> 1) ^ -(raw & 1)
            shift += 7
        raise self._malformed(f"a number is cut or longer than {bits} bits")

    def _malformed(self, reason: str) -> MalformedMessage:
        return MalformedMessage(
            f"{self._spot}: {reason} (byte {self._position} of its records); read it from another "
            "replica."
        )


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

    Raises MalformedMessage: the CRC differs, or the bytes are not messages.
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
    (size,) = BLOCK_LENGTH.unpack_from(content, at)
    begin = at + BLOCK_LENGTH.size
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
        (length,) = BLOCK_LENGTH.unpack_from(content, at + LENGTH_END - BLOCK_LENGTH.size)
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
