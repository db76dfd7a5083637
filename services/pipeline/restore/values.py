"""A stored record as a producer is given it, and what of it no producer can keep (B9).

librdkafka takes timestamp 0 for "now" and ends a header's key at a NUL; Java's producer keeps
both, but refuses a negative timestamp. So each takes what the other cannot, and what is left is
declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from services.topic_backup.record import (
    HEAD,
    LENGTH,
    TIMESTAMP,
    Headers,
    Record,
    TimestampType,
    decode,
    encode,
)

NO_TIMESTAMP = -1
LOG_APPEND_TIME = "log append time"
"""Stamped by the broker then; restored as create time."""
WITHOUT_TIMESTAMP = "no timestamp"
HEADER_KEY = "header key"
"""No UTF-8; or with a NUL, in a record whose timestamp is below 0."""

Declare = Callable[[str], None]
"""Told what is different of a record."""
NUL = b"\x00"


class NeedsJava(Exception):
    """The record is one that librdkafka would change, and Java's producer would not."""


class Fields(NamedTuple):
    """What is produced of one record."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def for_librdkafka(data: bytes, at: int, declare: Declare) -> dict[str, Any]:
    """The record at *at* of *data* as arguments of `produce`; *data* was verified before.

    Raises:
        NeedsJava: with nothing declared.
    """
    kind, timestamp, at = _head(data, at)
    key, at = _content(data, at)
    value, at = _content(data, at)
    headers = _headers(data, at)
    if timestamp == 0 or (headers and timestamp > 0 and any(NUL in name for name, _ in headers)):
        raise NeedsJava
    if kind != TimestampType.CREATE:
        declare(_declared(kind))
    texts = [(_text(name), held) for name, held in headers]
    if headers and _changes(headers, cut=timestamp < 0):
        declare(HEADER_KEY)
    return {"key": key, "value": value, "timestamp": timestamp, "headers": texts}


def for_java(data: bytes, at: int, declare: Declare) -> Fields | None:
    """The same for Java's producer; None for a record that only librdkafka takes."""
    kind, timestamp, at = _head(data, at)
    if timestamp < 0:
        return None
    key, at = _content(data, at)
    value, at = _content(data, at)
    headers = _headers(data, at)
    if kind != TimestampType.CREATE:
        declare(_declared(kind))
    if _changes(headers, cut=False):
        declare(HEADER_KEY)
    return Fields(timestamp, key, value, [(_text(name), held) for name, held in headers])


def easy(data: bytes, at: int) -> bool:
    """Whether librdkafka keeps the record at *at* of *data*."""
    try:
        for_librdkafka(data, at, lambda _: None)
    except NeedsJava:
        return False
    return True


def as_restored(record: Record) -> Record:
    """*record* as it is in a topic after its restore: with what cannot be kept."""
    timestamp = NO_TIMESTAMP if record.timestamp is None else record.timestamp
    cut = timestamp < 0
    headers = tuple((_name(name, cut=cut), held) for name, held in record.headers)
    return record._replace(
        timestamp_type=TimestampType.CREATE, timestamp=timestamp, headers=headers
    )


def restored_bytes(data: bytes) -> bytes:
    """The same of one encoded record."""
    record, _ = decode(data, 0, len(data), len(data))
    return encode(as_restored(record))


def declared_of(record: Record) -> list[str]:
    """What of *record* cannot be kept."""
    found = []
    if record.timestamp_type is not TimestampType.CREATE:
        found.append(_declared(record.timestamp_type))
    if as_restored(record).headers != record.headers:
        found.append(HEADER_KEY)
    return found


def _declared(kind: int) -> str:
    return LOG_APPEND_TIME if kind == TimestampType.LOG_APPEND else WITHOUT_TIMESTAMP


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """Timestamp type and timestamp, and where the key begins."""
    _, kind = HEAD.unpack_from(data, at)
    at += HEAD.size
    if kind < TimestampType.CREATE:
        return kind, NO_TIMESTAMP, at
    (timestamp,) = TIMESTAMP.unpack_from(data, at)
    return kind, timestamp, at + TIMESTAMP.size


def _headers(data: bytes, at: int) -> Headers | list[tuple[bytes, bytes | None]]:
    (count,) = LENGTH.unpack_from(data, at)
    if not count:
        return ()
    at += LENGTH.size
    headers = []
    for _ in range(count):
        name, at = _content(data, at)
        value, at = _content(data, at)
        headers.append((name or b"", value))
    return headers


def _changes(headers: Headers | list[tuple[bytes, bytes | None]], *, cut: bool) -> bool:
    return any(_name(name, cut=cut) != name for name, _ in headers)


def _name(name: bytes, *, cut: bool) -> bytes:
    """A header's key as it is produced; *cut* by librdkafka at a NUL."""
    text = _text(name).encode()
    return text.partition(NUL)[0] if cut else text


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _content(data: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = LENGTH.unpack_from(data, at)
    at += LENGTH.size
    return (None, at) if size < 0 else (data[at : at + size], at + size)
