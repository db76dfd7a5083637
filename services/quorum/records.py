"""Decodes metadata records by Kafka's own schemas, which lie next to this module.

``schemas`` has them as they are in the jars of Kafka 4.3.1 (Apache License 2.0): kafka-metadata's
records and the control records of kafka-clients. A schema describes every older version.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parent / "schemas"
FRAME_VERSION = 1
UUID_BYTES = 16
_COMMENT = re.compile(r"(?m)^\s*//.*$")
_INTEGERS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}

Fields = dict[str, Any]
"""The values of a record by Kafka's names; a UUID is its 16 bytes, an array a tuple."""
Read = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value from a position; returns it with the position after it."""


class _Unreadable(Exception):
    """Bytes that the schema does not allow."""


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record that no schema describes: a type or a version of a later Kafka, or damage."""

    name: str
    """Its type and version: ``record type 42 v0``."""
    content: bytes


Decoded = tuple[str, Fields] | UnknownRecord
"""A record's name in Kafka and its fields."""


def decode_record(value: bytes) -> Decoded:
    """The metadata record that is the *value* of a record of the log."""
    try:
        frame, at = _uvarint(value, 0)
        key, at = _uvarint(value, at)
        version, at = _uvarint(value, at)
    except _Unreadable:
        return UnknownRecord("record without a type", value)
    name = _names().get(key)
    if frame != FRAME_VERSION or name is None:
        return UnknownRecord(f"record type {key} v{version}", value)
    return _decoded(name, version, value, at)


def decode_control(name: str, value: bytes) -> Decoded:
    """The control record *name*: its version comes first, in its own field."""
    version = int.from_bytes(value[:2], "big", signed=True)
    return _decoded(name, version, value, 0)


def _decoded(name: str, version: int, value: bytes, at: int) -> Decoded:
    read = _reader(name, version)
    if read is None:
        return UnknownRecord(f"{name} v{version}", value)
    try:
        fields, end = read(value, at)
    except (_Unreadable, struct.error, IndexError, UnicodeDecodeError):
        return UnknownRecord(f"unreadable {name} v{version}", value)
    if end != len(value):
        return UnknownRecord(f"unreadable {name} v{version}", value)
    return name, fields


@cache
def _schema(name: str) -> Mapping[str, Any]:
    text = (SCHEMAS / f"{name}.json").read_text("utf-8")
    schema: Mapping[str, Any] = json.loads(_COMMENT.sub("", text))
    return schema


@cache
def _names() -> Mapping[int, str]:
    schemas = {path.stem: _schema(path.stem) for path in SCHEMAS.glob("*.json")}
    return {one["apiKey"]: name for name, one in schemas.items() if "apiKey" in one}


@cache
def _reader(name: str, version: int) -> Read | None:
    """Reads that version of the record; None: the schema does not have it."""
    schema = _schema(name)
    return _struct(schema["fields"], version) if _has(schema["validVersions"], version) else None


def _has(versions: str, version: int) -> bool:
    """Whether a range as schemas write it, ``2``, ``0-2``, ``1+`` or ``none``, has *version*."""
    if versions == "none":
        return False
    first, _, last = versions.rstrip("+").partition("-")
    return int(first) <= version and (versions.endswith("+") or version <= int(last or first))


def _struct(fields: list[Mapping[str, Any]], version: int) -> Read:
    plain: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    defaults: Fields = {}
    for field in fields:
        name, read = field["name"], _value(field, version)
        if not _has(field["versions"], version) or "tag" in field:
            defaults[name] = _default(field)
        if _has(field.get("taggedVersions", "none"), version):
            tagged[field["tag"]] = name, read
        elif _has(field["versions"], version):
            plain.append((name, read))

    def read_struct(data: bytes, at: int) -> tuple[Fields, int]:
        found = dict(defaults)
        for name, read in plain:
            found[name], at = read(data, at)
        count, at = _uvarint(data, at)
        for _ in range(count):
            tag, at = _uvarint(data, at)
            size, at = _uvarint(data, at)
            end = at + size
            if end > len(data):
                raise _Unreadable
            if tag in tagged:
                name, read = tagged[tag]
                found[name], at = read(data, at)
                if at != end:
                    raise _Unreadable
            at = end
        return found, at

    return read_struct


def _value(field: Mapping[str, Any], version: int) -> Read:
    kind: str = field["type"]
    nullable = _has(field.get("nullableVersions", "none"), version)
    if kind.startswith("[]"):
        element = {**field, "type": kind[2:], "nullableVersions": "none"}
        return _array(kind[2:], _value(element, version), nullable=nullable)
    if kind in _INTEGERS:
        return _number(_INTEGERS[kind])
    if kind == "float64":
        return _number("d")
    if kind == "bool":
        return lambda data, at: (data[at] != 0, at + 1)
    if kind == "uuid":
        return _uuid
    if kind in ("string", "bytes"):
        return _text(decoded=kind == "string", nullable=nullable)
    return _struct(field["fields"], version)


def _number(code: str) -> Read:
    form = struct.Struct(f">{code}")
    return lambda data, at: (form.unpack_from(data, at)[0], at + form.size)


def _uuid(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + UUID_BYTES
    if end > len(data):
        raise _Unreadable
    return data[at:end], end


def _text(*, decoded: bool, nullable: bool) -> Read:
    def read(data: bytes, at: int) -> tuple[str | bytes | None, int]:
        size, at = _size(data, at, nullable=nullable)
        if size is None:
            return None, at
        end = at + size
        if end > len(data):
            raise _Unreadable
        return data[at:end].decode() if decoded else data[at:end], end

    return read


def _array(kind: str, element: Read, *, nullable: bool) -> Read:
    code = _INTEGERS.get(kind)
    width = struct.calcsize(f">{code}") if code else 1

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...] | None, int]:
        count, at = _size(data, at, nullable=nullable)
        if count is None:
            return None, at
        if at + count * width > len(data):
            raise _Unreadable
        if code:
            return struct.unpack_from(f">{count}{code}", data, at), at + count * width
        found = []
        for _ in range(count):
            one, at = element(data, at)
            found.append(one)
        return tuple(found), at

    return read


def _size(data: bytes, at: int, *, nullable: bool) -> tuple[int | None, int]:
    """A length, which is written plus 1; 0 is null."""
    size, at = _uvarint(data, at)
    if size:
        return size - 1, at
    if not nullable:
        raise _Unreadable
    return None, at


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _Unreadable


def _default(field: Mapping[str, Any]) -> object:
    """What a field is where it is not written."""
    kind, given = field["type"], field.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return ()
    if kind in _INTEGERS:
        return int(given or 0)
    if kind == "bool":
        return given == "true"
    return given or {"float64": 0.0, "uuid": bytes(UUID_BYTES), "bytes": b""}.get(kind, "")
