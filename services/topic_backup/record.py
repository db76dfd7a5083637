"""Encodes and decodes one record as Kafka Backup writes it, and writes it as JSON; without I/O.

::

    Record =>
      Offset        => int64     of the record in the source cluster
      TimestampType => int32     -1 none, 0 create, 1 log append, -2 create with a null timestamp
      Timestamp     => int64     milliseconds; only for types 0 and 1
      Key           => Bytes
      Value         => Bytes
      HeaderCount   => int32
      Headers       => [HeaderKey Bytes, HeaderValue Bytes]

    Bytes => Length int32 (-1: null, and no bytes follow), then that many bytes

All numbers are big-endian; there is no alignment and no checksum. A header key is never null; its
bytes stay unchanged, because some producers do not write UTF-8. Source: RecordSerde.java of
itadventurer/kafka-backup.
"""

from __future__ import annotations

import base64
import struct
from enum import StrEnum
from typing import Any

from breakglass.services.record_batches import MAX_HEADERS, Headers, Record, TimestampType

HEAD = struct.Struct(
    ">q"  # Offset        => int64
    "i"  # TimestampType => int32
)
TIMESTAMP = struct.Struct(">q")
LENGTH = struct.Struct(">i")

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""Maximum size of a record that is read: far more than brokers accept, and it fits in memory."""
SMALLEST_HEADER = 2 * LENGTH.size


class NeedMore(Exception):
    """The record extends beyond the loaded bytes, but not beyond the end of its file."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size
        """The least number of bytes to load."""


class UnreadableRecord(Exception):
    """The bytes are not a record. Callers convert it to an error that names the file."""

    def __init__(self, at: int, reason: str, *, torn: bool = False) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.torn = torn
        """Whether the record extends beyond the end, as after a killed writer."""


def encode(record: Record) -> bytes:
    """The bytes of *record*. Raises ValueError: the timestamp does not match its type."""
    head = HEAD.pack(record.offset, record.timestamp_type)
    if record.timestamp_type.stamped != (record.timestamp is not None):
        raise ValueError(f"{record.timestamp_type.name} with timestamp {record.timestamp}")
    parts = [
        head if record.timestamp is None else head + TIMESTAMP.pack(record.timestamp),
        *_encode_bytes(record.key),
        *_encode_bytes(record.value),
    ]
    parts.append(LENGTH.pack(len(record.headers)))
    for key, value in record.headers:
        parts += _encode_bytes(key)
        parts += _encode_bytes(value)
    return b"".join(parts)


def _encode_bytes(content: bytes | None) -> tuple[bytes, ...]:
    if content is None:
        return (LENGTH.pack(-1),)
    return LENGTH.pack(len(content)), content


def decode(data: bytes, at: int, end: int, max_bytes: int = MAX_RECORD_BYTES) -> tuple[Record, int]:
    """Decode the record at *at* of *data*; also return where the next record starts.

    *end* is where the file's readable bytes end, counted like *at*; it may be beyond the loaded
    bytes. Lengths are compared with *end* before anything is read or allocated.

    Raises:
        NeedMore: more of the file must be loaded first.
        UnreadableRecord: the bytes are not a record, or the record exceeds *max_bytes*.
    """
    return _Decoder(data, at, end, max_bytes).record()


class _Decoder:
    """Parses one record; `position` is the next byte to read."""

    __slots__ = ("ceiling", "data", "end", "loaded", "position", "start")

    def __init__(self, data: bytes, at: int, end: int, max_bytes: int) -> None:
        self.data = data
        self.start = self.position = at
        self.end = end
        self.ceiling = at + max_bytes
        self.loaded = min(len(data), end, self.ceiling)

    def record(self) -> tuple[Record, int]:
        self.reach(HEAD.size, "the offset")
        offset, number = HEAD.unpack_from(self.data, self.position)
        kind = self.timestamp_type(number)
        if offset < 0:
            raise UnreadableRecord(self.start, f"an offset cannot be {offset}")
        self.position += HEAD.size
        timestamp = self.timestamp() if kind.stamped else None
        key = self.content("the key")
        value = self.content("the value")
        return Record(offset, kind, timestamp, key, value, self.headers()), self.position

    def timestamp_type(self, number: int) -> TimestampType:
        try:
            return TimestampType(number)
        except ValueError:
            reason = f"a timestamp type cannot be {number}"
            raise UnreadableRecord(self.start + 8, reason) from None

    def timestamp(self) -> int:
        self.reach(TIMESTAMP.size, "the timestamp")
        (timestamp,) = TIMESTAMP.unpack_from(self.data, self.position)
        self.position += TIMESTAMP.size
        return int(timestamp)

    def content(self, what: str) -> bytes | None:
        """Length-prefixed bytes; None for null."""
        size = self.length(f"the length of {what}")
        if size == -1:
            return None
        if size < 0:
            raise UnreadableRecord(
                self.position - LENGTH.size, f"{what} cannot be {size} bytes long"
            )
        self.reach(size, what)
        start = self.position
        self.position = start + size
        return self.data[start : self.position]

    def headers(self) -> Headers:
        count = self.length("the header count")
        if count == 0:
            return ()
        if not 0 < count <= MAX_HEADERS:
            raise UnreadableRecord(self.position - LENGTH.size, f"there cannot be {count} headers")
        self.reach(count * SMALLEST_HEADER, f"the {count} headers")
        return tuple(self.header() for _ in range(count))

    def header(self) -> tuple[bytes, bytes | None]:
        key = self.content("a header key")
        if key is None:
            raise UnreadableRecord(self.position - LENGTH.size, "a header key cannot be null")
        return key, self.content("a header value")

    def length(self, what: str) -> int:
        self.reach(LENGTH.size, what)
        (size,) = LENGTH.unpack_from(self.data, self.position)
        self.position += LENGTH.size
        return int(size)

    def reach(self, size: int, what: str) -> None:
        to = self.position + size
        if to > self.loaded:
            self.refuse(to, what)

    def refuse(self, to: int, what: str) -> None:
        if to > self.end:
            missing = to - self.end
            reason = f"{what} goes {missing} bytes past the end"
            raise UnreadableRecord(self.start, reason, torn=True)
        if to > self.ceiling:
            size = to - self.start
            reason = f"a record of {size} bytes or more is over the limit of this reader"
            raise UnreadableRecord(self.start, reason)
        raise NeedMore(to)


class BytesAs(StrEnum):
    """How bytes are shown in JSON, which has no type for them."""

    UTF8 = "utf8"
    """Text; bytes that are not UTF-8 become U+FFFD."""
    HEX = "hex"
    BASE64 = "base64"

    def show(self, content: bytes) -> str:
        if self is BytesAs.HEX:
            return content.hex()
        if self is BytesAs.BASE64:
            return base64.b64encode(content).decode()
        return content.decode(errors="replace")


def as_json(record: Record, form: BytesAs) -> dict[str, Any]:
    """One record as a JSON object; null stays null, headers are pairs in their order.

    ``{"offset", "timestamp_type": "none"|"create"|"log_append"|"create_null", "timestamp": ms,
    "key", "value", "headers": [[key, value], ...]}``
    """
    return {
        "offset": record.offset,
        "timestamp_type": record.timestamp_type.name.lower(),
        "timestamp": record.timestamp,
        "key": _shown(record.key, form),
        "value": _shown(record.value, form),
        "headers": [[form.show(key), _shown(value, form)] for key, value in record.headers],
    }


def _shown(content: bytes | None, form: BytesAs) -> str | None:
    return None if content is None else form.show(content)


def is_text(record: Record) -> bool:
    """Whether every key, value and header of *record* is UTF-8."""
    parts = [record.key, record.value, *(part for pair in record.headers for part in pair)]
    try:
        for one in parts:
            (one or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
