"""Reads the settings in WITH of CREATE STREAM and CREATE TABLE: their names, types and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from typing import Any

from breakglass.services.metastore.statements.parsing import TokenCursor, split_at_commas
from breakglass.services.metastore.statements.sql_types import identifier
from breakglass.services.metastore.statements.statement import (
    InvalidStatement,
    Token,
    TokenKind,
)

FORMATS = frozenset(
    ("AVRO", "JSON", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR", "KAFKA", "DELIMITED", "NONE")
)
_WINDOWS = ("SESSION", "HOPPING", "TUMBLING")
_UNITS = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 10**3,
    "MILLISECONDS": 10**6,
    "SECONDS": 10**9,
    "MINUTES": 60 * 10**9,
    "HOURS": 3_600 * 10**9,
    "DAYS": 86_400 * 10**9,
}
_NANOSECONDS = 10**9


class _Type(Enum):
    """The type of a setting's value, as Kafka's ConfigDef has it."""

    STRING = auto()
    INT = 31
    SHORT = 15
    LONG = 63
    BOOLEAN = auto()


SETTINGS = {
    "KAFKA_TOPIC": _Type.STRING,
    "PARTITIONS": _Type.INT,
    "REPLICAS": _Type.SHORT,
    "RETENTION_MS": _Type.LONG,
    "CLEANUP_POLICY": _Type.STRING,
    "FORMAT": _Type.STRING,
    "KEY_FORMAT": _Type.STRING,
    "VALUE_FORMAT": _Type.STRING,
    "KEY_DELIMITER": _Type.STRING,
    "VALUE_DELIMITER": _Type.STRING,
    "KEY_SCHEMA_ID": _Type.INT,
    "VALUE_SCHEMA_ID": _Type.INT,
    "KEY_SCHEMA_FULL_NAME": _Type.STRING,
    "VALUE_SCHEMA_FULL_NAME": _Type.STRING,
    "VALUE_AVRO_SCHEMA_FULL_NAME": _Type.STRING,
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION": _Type.STRING,
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION": _Type.STRING,
    "WRAP_SINGLE_VALUE": _Type.BOOLEAN,
    "TIMESTAMP": _Type.STRING,
    "TIMESTAMP_FORMAT": _Type.STRING,
    "WINDOW_TYPE": _Type.STRING,
    "WINDOW_SIZE": _Type.STRING,
    "SOURCE_CONNECTOR": _Type.STRING,
    "SOURCED_BY_CONNECTOR": _Type.STRING,
}
"""The settings of CreateConfigs and CommonCreateConfigs."""


@dataclass(frozen=True, slots=True)
class WithSettings:
    """The settings of one statement, with values of their types."""

    values: Mapping[str, str | int | bool]
    places: Mapping[str, int]
    """Where each name begins in the text."""

    def text(self, name: str) -> str | None:
        """The value as text; None where the setting is absent."""
        found = self.values.get(name)
        return None if found is None else str(found)

    def refused(self, name: str, why: str) -> InvalidStatement:
        """An error at the setting *name*."""
        return InvalidStatement(f"{name}: {why}", self.places.get(name))


def with_settings(given: Sequence[Token]) -> WithSettings:
    """The settings in *given*, the tokens in the parentheses after WITH.

    Raises: InvalidStatement for an unknown name, and for a value that ksqlDB refuses.
    """
    values: dict[str, str | int | bool] = {}
    places: dict[str, int] = {}
    for group in split_at_commas(list(given)) if given else ():
        cursor = TokenCursor(group)
        at = cursor.next.at
        quoted = cursor.next.form is TokenKind.STRING
        name = (cursor.take().text if quoted else identifier(cursor)).upper()
        kind = SETTINGS.get(name)
        if kind is None:
            raise InvalidStatement(f"Invalid config variable in the WITH clause: {name}", at)
        if name in places:
            raise InvalidStatement(f"{name} is set twice", at)
        cursor.expect("=")
        places[name] = at
        value = _checked(name, kind, _literal(cursor), at)
        cursor.end()
        if value is not None:
            values[name] = value
    found = WithSettings(values, places)
    _consistent(found)
    return found


def _literal(cursor: TokenCursor) -> Any:
    token = cursor.next
    minus = cursor.sign("-")
    value = cursor.take()
    if value.form is TokenKind.NUMBER:
        digits = f"{'-' * minus}{value.text}"
        return int(digits) if value.text.isdecimal() and len(digits) < 25 else Decimal(digits)
    if not minus and value.form is TokenKind.STRING:
        return value.text
    if not minus and value.is_word("TRUE", "FALSE", "NULL"):
        return {"TRUE": True, "FALSE": False, "NULL": None}[value.text]
    raise InvalidStatement(f"a value is expected in place of {value.text!r}", token.at)


def _checked(name: str, kind: _Type, value: Any, at: int) -> str | int | bool | None:
    """*value* as ConfigDef.parseType makes it."""
    if value is None:
        return None
    if kind is _Type.STRING:
        found: Any = value if isinstance(value, str) else None
    elif kind is _Type.BOOLEAN:
        words = {"true": True, "false": False}
        found = value if isinstance(value, bool) else words.get(str(value).strip().lower())
    else:
        found = _number(value, kind.value)
    if found is None:
        raise InvalidStatement(f"{name}: {value!r} is not a value of type {kind.name}", at)
    return found  # type: ignore[no-any-return]


def _number(value: Any, bits: int) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,19}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**bits) <= value < 2**bits else None


def _consistent(found: WithSettings) -> None:
    values = found.values
    topic = values.get("KAFKA_TOPIC")
    if topic is None or not str(topic):
        at = found.places.get("KAFKA_TOPIC")
        raise InvalidStatement("Missing required property KAFKA_TOPIC, which must be set", at)
    if "FORMAT" in values:
        for name in ("KEY_FORMAT", "VALUE_FORMAT"):
            if name in values:
                raise found.refused(name, "cannot be supplied with FORMAT, which sets both")
    elif "VALUE_FORMAT" not in values:
        raise InvalidStatement("Missing required property VALUE_FORMAT, which must be set")
    if {"VALUE_AVRO_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME"} <= values.keys():
        raise found.refused(
            "VALUE_AVRO_SCHEMA_FULL_NAME", "cannot be supplied with VALUE_SCHEMA_FULL_NAME"
        )
    for name in ("FORMAT", "KEY_FORMAT", "VALUE_FORMAT"):
        told = found.text(name)
        if told is not None and told.upper() not in FORMATS:
            raise found.refused(name, f"Unknown format: {told}")
    for side in ("KEY", "VALUE"):
        _of_side(found, side)
    _windowed(found)


def _of_side(found: WithSettings, side: str) -> None:
    delimiter = found.text(f"{side}_DELIMITER")
    single = delimiter is not None and len(delimiter) == 1 and delimiter.strip()
    if not (delimiter is None or single or delimiter in ("TAB", "SPACE")):
        raise found.refused(f"{side}_DELIMITER", "a single character, TAB or SPACE is expected")
    nullable = f"{side}_PROTOBUF_NULLABLE_REPRESENTATION"
    if found.text(nullable) not in (None, "OPTIONAL", "WRAPPER"):
        raise found.refused(nullable, "OPTIONAL or WRAPPER is expected")


def _windowed(found: WithSettings) -> None:
    kind, size = found.text("WINDOW_TYPE"), found.text("WINDOW_SIZE")
    if kind is not None and kind.upper() not in _WINDOWS:
        raise found.refused("WINDOW_TYPE", f"one of {', '.join(_WINDOWS)} is expected")
    if kind is not None and kind.upper() != "SESSION" and size is None:
        raise found.refused("WINDOW_TYPE", f"{kind.upper()} windows require WINDOW_SIZE")
    if size is not None and (kind is None or kind.upper() == "SESSION"):
        raise found.refused("WINDOW_SIZE", "should not be set for SESSION windows")
    if size is not None and window_seconds(size) is None:
        raise found.refused("WINDOW_SIZE", f"Invalid duration: '{size}'; write '10 SECONDS'")


def window_seconds(size: str) -> float | None:
    """The duration *size*, such as ``10 SECONDS``, in seconds; None where it is not a duration."""
    match = re.fullmatch(r"(\d{1,18})\s([A-Za-z]+)", size)
    if match is None:
        return None
    unit = match[2].upper()
    factor = _UNITS.get(unit if unit.endswith("S") else f"{unit}S")
    nanoseconds = None if factor is None else int(match[1]) * factor
    return nanoseconds / _NANOSECONDS if nanoseconds else None
