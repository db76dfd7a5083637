"""One record as Kafka Backup writes it: the value and its codec, without I/O.

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

Everything is big-endian, nothing is aligned or checked by a sum. Source: RecordSerde.java of
itadventurer/kafka-backup. A header key is never null; its bytes are kept as they are, for not
every producer writes UTF-8.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

HEAD = struct.Struct(
    ">q"  # Offset        => int64
    "i"  # TimestampType => int32
)
TIMESTAMP = struct.Struct(">q")
LENGTH = struct.Struct(">i")

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""No record is read that claims more: far above what brokers accept, and it fits in memory."""
MAX_HEADERS = 1_000_000
"""No record is read that claims more headers: each costs a hundred bytes of memory or more."""
SMALLEST_HEADER = 2 * LENGTH.size

Headers = tuple[tuple[bytes, bytes | None], ...]
"""Key and value of each header, in order, duplicates kept."""


class TimestampType(IntEnum):
    """What a record's timestamp means, by its number on disk."""

    CREATE_NULL = -2
    """Create time, and the timestamp itself is null (kafka-backup#92)."""
    NONE = -1
    CREATE = 0
    LOG_APPEND = 1

    @property
    def stamped(self) -> bool:
        """Whether a timestamp follows on disk."""
        return self >= TimestampType.CREATE


class Record(NamedTuple):
    """One record. A tuple, because there are millions of them."""

    offset: int
    timestamp_type: TimestampType
    timestamp: int | None
    """Milliseconds since the epoch; None exactly for NONE and CREATE_NULL."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NeedMore(Exception):
    """The record goes on behind the bytes that were loaded, and before the end of its file."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size
        """How many bytes have to be loaded, at least."""


class UnreadableRecord(Exception):
    """The bytes are no record. Callers turn it into an error that names the file."""

    def __init__(self, at: int, reason: str, *, torn: bool = False) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason
        self.torn = torn
        """The record runs past the end, as one does whose writer was killed."""


def encode(record: Record) -> bytes:
    """The bytes of *record*.

    Raises:
        ValueError: the timestamp does not go with its type.
    """
    parts = [_encode_head(record), *_encode_bytes(record.key), *_encode_bytes(record.value)]
    parts.append(LENGTH.pack(len(record.headers)))
    for key, value in record.headers:
        parts += _encode_bytes(key)
        parts += _encode_bytes(value)
    return b"".join(parts)


def _encode_head(record: Record) -> bytes:
    head = HEAD.pack(record.offset, record.timestamp_type)
    if record.timestamp_type.stamped != (record.timestamp is not None):
        raise ValueError(f"{record.timestamp_type.name} with timestamp {record.timestamp}")
    return head if record.timestamp is None else head + TIMESTAMP.pack(record.timestamp)


def _encode_bytes(content: bytes | None) -> tuple[bytes, ...]:
    if content is None:
        return (LENGTH.pack(-1),)
    return LENGTH.pack(len(content)), content


def decode(data: bytes, at: int, end: int, max_bytes: int = MAX_RECORD_BYTES) -> tuple[Record, int]:
    """The record at *at* of *data*, and where the next one starts.

    *end* is where the file's readable bytes end, counted like *at*; it may lie behind what is
    loaded. A length is compared with *end* before anything is read or allocated.

    Raises:
        NeedMore: more of the file has to be loaded first.
        Unreadable: the bytes are no record, or one of more than *max_bytes*.
    """
    return _Decoder(data, at, end, max_bytes).record()


class _Decoder:
    """Walks over one record; `position` is the next byte to be read."""

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
        """Bytes with their length before them; None for null."""
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
        """Make sure that *size* more bytes are there to be read."""
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
