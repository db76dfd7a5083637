"""Decodes and encodes metadata records by Kafka's own schemas, which lie next to this module.

``schemas`` has them as they are in the jars of Kafka 4.3.1 (Apache License 2.0): kafka-metadata's
records and the control records of kafka-clients. A schema describes every older version.
kafka-python's codec works by them; what it lets pass is checked here.

::

    Value =>
      FrameVersion => uvarint   1
      ApiKey       => uvarint   the record's type
      Version      => uvarint
      Fields       => as the schema has them, compact and tagged

Source: AbstractApiMessageSerde.java, MetadataRecordSerde.java.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kafka.protocol.data_container import DataContainer
from kafka.protocol.schemas import StructField
from kafka.record.util import encode_varint

from breakglass.services.record_batches import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    CONTROL_KEY,
    CONTROL_MASK,
    LENGTH_END,
    MAGIC,
    ControlType,
)

SCHEMAS = Path(__file__).parent / "schemas"
FRAME_VERSION = 1
_COMMENT = re.compile(r"(?m)^\s*//.*$")
_UNREADABLE = (struct.error, IndexError, ValueError, TypeError, OverflowError, AssertionError)
"""What kafka-python's codec raises on bytes of another form."""


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record that no schema describes: a type or a version of a later Kafka, or damage."""

    name: str
    """Its type and version: ``record type 42 v0``."""
    content: bytes


Decoded = tuple[str, Any] | UnknownRecord
"""A record's name in Kafka and its fields, as attributes: ``TopicId`` is ``topic_id``."""


def decode_record(value: bytes) -> Decoded:
    """The metadata record that is the *value* of a record of the log."""
    try:
        frame, at = _uvarint(value, 0)
        key, at = _uvarint(value, at)
        version, at = _uvarint(value, at)
    except IndexError:
        return UnknownRecord("record without a type", value)
    name = _names().get(key)
    if frame != FRAME_VERSION or name is None:
        return UnknownRecord(f"record type {key} v{version}", value)
    return _decoded(name, version, value, at)


def decode_control(name: str, value: bytes) -> Decoded:
    """The control record *name*: its version comes first, in its own field."""
    return _decoded(name, int.from_bytes(value[:2], "big", signed=True), value, 0)


def encode_record(name: str, version: int = 0, /, **fields: object) -> tuple[None, bytes]:
    """Key and value of a metadata record. A field without a value has the schema's default."""
    head = bytes([FRAME_VERSION, _schema(name)["apiKey"], version])
    return None, head + _encoded(name, version, **fields)


def encode_control(kind: ControlType, name: str, /, **fields: object) -> tuple[bytes, bytes]:
    """Key and value of the control record *name*."""
    return CONTROL_KEY.pack(0, kind), _encoded(name, 0, **fields)


def encode_batch(
    offset: int,
    epoch: int,
    records: Sequence[tuple[bytes | None, bytes]],
    at_ms: int,
    *,
    control: bool = False,
) -> bytes:
    """*records* as one batch without a producer, as a leader of *epoch* writes it."""
    import google_crc32c

    body = bytearray()
    for number, (key, value) in enumerate(records):
        named = _varint(-1) if key is None else _varint(len(key)) + key
        numbers = b"\0" + _varint(0) + _varint(number)
        one = numbers + named + _varint(len(value)) + value + _varint(0)
        body += _varint(len(one)) + one
    size, last = BATCH_HEADER.size - LENGTH_END + len(body), len(records) - 1
    attributes = CONTROL_MASK if control else 0
    fields = (attributes, last, at_ms, at_ms, -1, -1, -1, len(records))
    covered = BATCH_HEADER.pack(offset, size, epoch, MAGIC, 0, *fields)[ATTRIBUTES_AT:] + body
    crc = google_crc32c.value(bytes(covered))
    return BATCH_HEADER.pack(offset, size, epoch, MAGIC, crc, *fields) + body


def _decoded(name: str, version: int, value: bytes, at: int) -> Decoded:
    first, _, last = _schema(name)["validVersions"].partition("-")
    if not int(first) <= version <= int(last or first):
        return UnknownRecord(f"{name} v{version}", value)
    unreadable = UnknownRecord(f"unreadable {name} v{version}", value)
    if not _schema(name)["fields"]:
        return (name, None) if value[at:] == b"\0" else unreadable
    try:
        decode, required = _decoder(name, version)
        fields, end = decode(value, at)
        null = any(getattr(fields, one) is None for one in required)
    except _UNREADABLE:
        return unreadable
    return unreadable if null or end != len(value) else (name, fields)


def _encoded(name: str, version: int, /, **fields: object) -> bytes:
    made = _class(name)(version=version, **fields)
    return bytes(made.encode(version=version, compact=True, tagged=True))


@cache
def _decoder(name: str, version: int) -> tuple[Any, tuple[str, ...]]:
    """Decodes that version; and the fields that are never null, which the codec lets be null."""
    schema = _class(name)._struct
    required = tuple(
        field.name
        for field in schema.untagged_fields(version)
        if field.type_str.startswith(("string", "bytes", "[]"))
        and not field.nullable_for_version_q(version)
    )
    return schema.compiled_decode_from(version, compact=True, tagged=True), required


@cache
def _class(name: str) -> Any:
    """kafka-python's class of the record."""
    schema = StructField(_schema(name))
    made = type(name, (DataContainer,), {"_struct": schema})
    schema.set_data_class(made)
    return made


@cache
def _schema(name: str) -> Mapping[str, Any]:
    text = (SCHEMAS / f"{name}.json").read_text("utf-8")
    schema: Mapping[str, Any] = json.loads(_COMMENT.sub("", text))
    return schema


@cache
def _names() -> Mapping[int, str]:
    schemas = {path.stem: _schema(path.stem) for path in SCHEMAS.glob("*.json")}
    return {one["apiKey"]: name for name, one in schemas.items() if "apiKey" in one}


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _varint(value: int) -> bytes:
    written = bytearray()
    encode_varint(value, written.append)
    return bytes(written)
