"""Makes the plan of a statement that needs no query, as ksqlDB's servers make it.

The servers execute plans and never the text of CREATE, so the plan decides the object. Fields that
have their default are left out: each server that executes plans reads those it knows.

Reads the columns that CREATE STREAM and CREATE TABLE declare, as ksqlDB does.

Reads the settings in WITH of CREATE STREAM and CREATE TABLE: their names, types and values.

Mends what a statement has from a page: typographic quotes, and the older name of a setting.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, StrEnum, auto
from typing import Any, NamedTuple

from breakglass.services.metastore.command import EntityType
from breakglass.services.metastore.statements.parsing import (
    InvalidStatement,
    SqlType,
    Statement,
    StatementKind,
    Token,
    TokenCursor,
    TokenKind,
    identifier,
    parse,
    split_at_commas,
    sql_type,
    tokens,
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
        delimiter = found.text(f"{side}_DELIMITER")
        single = delimiter is not None and len(delimiter) == 1 and delimiter.strip()
        if not (delimiter is None or single or delimiter in ("TAB", "SPACE")):
            raise found.refused(f"{side}_DELIMITER", "a single character, TAB or SPACE is expected")
        nullable = f"{side}_PROTOBUF_NULLABLE_REPRESENTATION"
        if found.text(nullable) not in (None, "OPTIONAL", "WRAPPER"):
            raise found.refused(nullable, "OPTIONAL or WRAPPER is expected")
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


SYSTEM_COLUMNS = frozenset(("ROWTIME", "ROWPARTITION", "ROWOFFSET", "WINDOWSTART", "WINDOWEND"))
HEADERS = "ARRAY<STRUCT<`KEY` STRING, `VALUE` BYTES>>"
"""The type of a column with all headers of a record."""


class ColumnRole(StrEnum):
    """What a column is made of."""

    VALUE = "value"
    KEY = "key"
    HEADERS = "headers"


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column; its text is the canonical one of plans."""

    name: str
    type: SqlType
    role: ColumnRole
    header: str | None = None
    """The header that it has; None for all headers."""
    primary: bool = False
    at: int = 0
    """Where its name begins in the text."""

    def __str__(self) -> str:
        role = {
            ColumnRole.VALUE: "",
            ColumnRole.KEY: " KEY",
            ColumnRole.HEADERS: " HEADERS" if self.header is None else f" HEADER('{self.header}')",
        }[self.role]
        return f"`{self.name}` {self.type}{role}"


def declared_columns(
    elements: Sequence[Token], entity: EntityType, types: Mapping[str, str]
) -> tuple[DeclaredColumn, ...]:
    """The columns in *elements*, the tokens between the parentheses.

    Raises: InvalidStatement where the grammar, or a rule of ksqlDB's for columns, is broken.
    """
    cursor, found = TokenCursor(list(elements)), list[DeclaredColumn]()
    while True:
        found.append(_column(cursor, types))
        if cursor.done:
            break
        cursor.expect(",")
    for column in found:
        if column.name in SYSTEM_COLUMNS:
            raise InvalidStatement(f"'{column.name}' is a reserved column name", column.at)
        if column.role is ColumnRole.KEY and column.primary != (entity is EntityType.TABLE):
            if column.primary:
                told = "a stream cannot have a PRIMARY KEY: use KEY"
            else:
                told = "a table needs a PRIMARY KEY, not KEY"
            raise InvalidStatement(f"column {column.name}: {told}", column.at)
        expected = HEADERS if column.header is None else "BYTES"
        if column.role is ColumnRole.HEADERS and str(column.type) != expected:
            raise InvalidStatement(
                f"column {column.name}: headers have the type {expected}, not {column.type}",
                column.at,
            )
    names = Counter(column.name for column in found)
    double = [column for column in found if names[column.name] > 1]
    if double:
        raise InvalidStatement(f"Duplicate column names: {double[0].name}", double[-1].at)
    headers = [column for column in found if column.role is ColumnRole.HEADERS]
    named = Counter(column.header for column in headers)
    if len(headers) > 1 and (None in named or max(named.values()) > 1):
        raise InvalidStatement("headers are in two columns", headers[-1].at)
    if entity is EntityType.TABLE and not any(column.primary for column in found):
        raise InvalidStatement("a table needs a PRIMARY KEY", elements[0].at)
    return tuple(found)


def _column(cursor: TokenCursor, types: Mapping[str, str]) -> DeclaredColumn:
    at = cursor.next.at
    name = identifier(cursor)
    kind = sql_type(cursor, types)
    if cursor.words("PRIMARY", "KEY"):
        return DeclaredColumn(name, kind, ColumnRole.KEY, primary=True, at=at)
    if cursor.words("KEY"):
        return DeclaredColumn(name, kind, ColumnRole.KEY, at=at)
    if cursor.words("HEADERS"):
        return DeclaredColumn(name, kind, ColumnRole.HEADERS, at=at)
    if cursor.words("HEADER"):
        cursor.expect("(")
        header = cursor.take()
        if header.form is not TokenKind.STRING or not header.text:
            raise InvalidStatement("HEADER has the name of a header as a string", header.at)
        cursor.expect(")")
        return DeclaredColumn(name, kind, ColumnRole.HEADERS, header.text, at=at)
    return DeclaredColumn(name, kind, ColumnRole.VALUE, at=at)


WRAP, UNWRAP = "WRAP_SINGLES", "UNWRAP_SINGLES"
_WRAPPING = {
    "AVRO": (WRAP, UNWRAP),
    "JSON": (WRAP, UNWRAP),
    "JSON_SR": (WRAP, UNWRAP),
    "PROTOBUF": (WRAP,),
    "PROTOBUF_NOSR": (WRAP, UNWRAP),
    "KAFKA": (UNWRAP,),
    "DELIMITED": (UNWRAP,),
    "NONE": (),
}
_PROPERTIES = {
    "AVRO": {"fullSchemaName", "schemaId"},
    "JSON_SR": {"fullSchemaName", "schemaId"},
    "PROTOBUF": {"fullSchemaName", "schemaId", "unwrapPrimitives", "nullableRepresentation"},
    "PROTOBUF_NOSR": {"nullableRepresentation"},
    "DELIMITED": {"delimiter"},
}
"""The properties that each format supports."""
_REGISTERED = ("AVRO", "JSON_SR", "PROTOBUF")
"""The formats whose schemas are in a schema registry."""
DEFAULT_KEY_FORMAT = "KAFKA"
"""ksql.persistence.default.format.key, where a server does not set it."""


def ddl_of(statement: Statement, types: Mapping[str, str]) -> dict[str, Any] | None:
    """The ddlCommand of *statement*; None where only a server can plan the statement.

    *types* are the custom types of the metastore, each with its definition.

    Raises: InvalidStatement for what ksqlDB would refuse.
    """
    if statement.kind is StatementKind.DROP_SOURCE:
        return {"@type": "dropSourceV1", "sourceName": statement.name}
    if statement.kind is StatementKind.DROP_TYPE:
        return {"@type": "dropTypeV1", "typeName": statement.name}
    if statement.kind is StatementKind.CREATE_TYPE:
        cursor = TokenCursor(list(statement.elements))
        found = sql_type(cursor, types)
        cursor.end()
        defined = found
        return {"@type": "registerTypeV1", "type": str(defined), "typeName": statement.name}
    if statement.kind is StatementKind.CREATE_SOURCE and statement.elements:
        columns = declared_columns(statement.elements, statement.entity, types)
        settings = with_settings(statement.settings)
        table = statement.entity is EntityType.TABLE
        optional = {
            "timestampColumn": _timestamp(settings, columns),
            "windowInfo": _window(settings, columns),
            "orReplace": statement.or_replace,
            "isSource": statement.read_only,
        }
        return {
            "@type": "createTableV1" if table else "createStreamV1",
            "sourceName": statement.name,
            "schema": ", ".join(map(str, columns)),
            "topicName": settings.text("KAFKA_TOPIC"),
            "formats": _formats(statement.name, settings, columns),
        } | {name: value for name, value in optional.items() if value}
    return None


def needs_server(statement: Statement, exists: bool) -> str:
    """Why *statement* needs a server; empty where a plan written here is all that a server does.

    *exists*: an object of its name is there, which the statement would replace.
    """
    if statement.kind.begins_query:
        return "its query needs a plan that only a server makes"
    if statement.kind is StatementKind.ALTER:
        return "only a server checks and registers the schema that it changes"
    if statement.kind is not StatementKind.CREATE_SOURCE:
        return ""
    if exists:
        return "only a server checks whether the object that it replaces may change like this"
    settings = with_settings(statement.settings)
    for name in ("PARTITIONS", "REPLICAS", "RETENTION_MS", "CLEANUP_POLICY"):
        if name in settings.values:
            return f"{name} makes or checks a topic, which only a server does"
    for which in (_key_format(settings), _value_format(settings)):
        if which in _REGISTERED:
            return f"{which} has its schema registered, which only a server does"
    return ""


def _key_format(settings: WithSettings) -> str:
    return (settings.text("FORMAT") or settings.text("KEY_FORMAT") or DEFAULT_KEY_FORMAT).upper()


def _value_format(settings: WithSettings) -> str:
    return (settings.text("FORMAT") or settings.text("VALUE_FORMAT") or "").upper()


def _formats(
    name: str, settings: WithSettings, columns: Sequence[DeclaredColumn]
) -> dict[str, Any]:
    keys = [column.type for column in columns if column.role is ColumnRole.KEY]
    values = [column.type for column in columns if column.role is ColumnRole.VALUE]
    key, value = _key_format(settings), _value_format(settings)
    _carries("KEY", key, keys, settings)
    _carries("VALUE", value, values, settings)
    features = {
        "keyFeatures": [UNWRAP] if len(keys) == 1 and len(_WRAPPING[key]) == 2 else [],
        "valueFeatures": _wrapped(settings, value, len(values)),
    }
    return {
        "keyFormat": _format(key, _properties("KEY", key, name, settings)),
        "valueFormat": _format(value, _properties("VALUE", value, name, settings)),
    } | {name: found for name, found in features.items() if found}


def _format(name: str, properties: Mapping[str, str]) -> dict[str, Any]:
    return {"format": name} | ({"properties": dict(properties)} if properties else {})


def _wrapped(settings: WithSettings, value: str, columns: int) -> list[str]:
    wrap = settings.values.get("WRAP_SINGLE_VALUE")
    if wrap is None:
        return []
    feature = WRAP if wrap else UNWRAP
    if feature not in _WRAPPING[value]:
        raise settings.refused(
            "WRAP_SINGLE_VALUE", f"format {value} does not support {str(wrap).lower()}"
        )
    if columns != 1:
        raise settings.refused("WRAP_SINGLE_VALUE", "only valid for single-field value schemas")
    return [feature]


def _properties(side: str, form: str, name: str, settings: WithSettings) -> dict[str, str]:
    schema = settings.text(f"{side}_SCHEMA_FULL_NAME")
    if side == "VALUE":
        schema = settings.text("VALUE_AVRO_SCHEMA_FULL_NAME") or schema
    elif schema is None and form == "AVRO":
        # name by Guava's CaseFormat, from UPPER_UNDERSCORE to UPPER_CAMEL.
        camel = "".join([word[:1].upper() + word[1:].lower() for word in name.split("_")])
        schema = f"io.confluent.ksql.avro_schemas.{camel}Key"
    nullable = settings.text(f"{side}_PROTOBUF_NULLABLE_REPRESENTATION")
    if nullable is not None and not form.startswith("PROTOBUF"):
        raise settings.refused(
            f"{side}_PROTOBUF_NULLABLE_REPRESENTATION", "can only be enabled with protobuf format"
        )
    found = {
        "fullSchemaName": schema,
        "delimiter": settings.text(f"{side}_DELIMITER"),
        "unwrapPrimitives": "true" if form == "PROTOBUF" else None,
        "nullableRepresentation": None if nullable is None else nullable.lower(),
        "schemaId": settings.text(f"{side}_SCHEMA_ID"),
    }
    set_ = {name: value for name, value in found.items() if value is not None}
    odd = sorted(set_.keys() - _PROPERTIES.get(form, set()))
    if odd:
        raise InvalidStatement(f"{form} does not support the following configs: {', '.join(odd)}")
    empty = [name for name, value in set_.items() if not value.strip()]
    if empty:
        raise InvalidStatement(f"{empty[0]} cannot be empty")
    return set_


def _carries(side: str, form: str, types: Sequence[SqlType], settings: WithSettings) -> None:
    """Refuse what the serde of *form* cannot carry as a key or a value."""
    where = "FORMAT" if "FORMAT" in settings.values else f"{side}_FORMAT"
    for why in _not_carried(form, types):
        raise settings.refused(where, why)


def _not_carried(form: str, types: Sequence[SqlType]) -> Iterable[str]:
    if form == "NONE" and types:
        yield "the 'NONE' format can only be used when no columns are defined"
    if form == "KAFKA" and len(types) > 1:
        yield "the 'KAFKA' format only supports a single field"
    for found in types:
        if form == "KAFKA" and found.base not in ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES"):
            yield f"the 'KAFKA' format does not support type '{found.base}'"
        if form == "DELIMITED" and found.nested:
            yield f"the 'DELIMITED' format does not support type '{found.base}'"
        for part in found.within():
            if part.base == "MAP" and part.parts[0].base != "STRING":
                yield f"{form} only supports MAP types with STRING keys"


def _timestamp(settings: WithSettings, columns: Sequence[DeclaredColumn]) -> dict[str, str] | None:
    given, form = settings.text("TIMESTAMP"), settings.text("TIMESTAMP_FORMAT")
    if given is None:
        return None
    try:
        found = [token for token in tokens(given) if token.form is not TokenKind.SIGN]
    except InvalidStatement:
        found = []
    name = found[0].text if len(found) == 1 else ""
    kinds = {column.name: column.type.base for column in columns}
    kind = kinds.get(name)
    if kind is None:
        raise settings.refused("TIMESTAMP", f"the column does not exist in the schema: '{given}'")
    if kind == "STRING":
        if form is None:
            raise settings.refused("TIMESTAMP", "a STRING column needs TIMESTAMP_FORMAT")
        return {"column": name, "format": form}
    if form is not None:
        raise settings.refused("TIMESTAMP_FORMAT", "only for a timestamp column of type STRING")
    if kind not in ("BIGINT", "TIMESTAMP"):
        raise settings.refused("TIMESTAMP", "a BIGINT, a TIMESTAMP or a STRING column is expected")
    return {"column": name}


def _window(
    settings: WithSettings, columns: Sequence[DeclaredColumn]
) -> dict[str, str | float] | None:
    kind = settings.text("WINDOW_TYPE")
    if kind is None:
        return None
    if not any(column.role is ColumnRole.KEY for column in columns):
        raise settings.refused("WINDOW_TYPE", "Windowed sources require a key column")
    seconds = window_seconds(settings.text("WINDOW_SIZE") or "")
    return {"type": kind.upper()} | ({} if seconds is None else {"size": seconds})


_STRAIGHT = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


class MendedStatement(NamedTuple):
    """A statement as ksqlDB's grammar has it."""

    text: str
    notes: tuple[str, ...] = ()
    """What was changed, a sentence each."""


def mend(text: str) -> MendedStatement:
    """*text*, mended where ksqlDB cannot read it and its meaning is certain; never raises.

    Typographic quotes are straightened only where the text is not a statement otherwise, and TOPIC
    becomes KAFKA_TOPIC only where WITH has no KAFKA_TOPIC.
    """
    notes = []
    straight = text.translate(_STRAIGHT)
    if straight != text and not _parsed(text) and _parsed(straight):
        text = straight
        notes.append("typographic quotes were replaced by ' and \"")
    named = _with_kafka_topic(text)
    if named != text:
        text = named
        notes.append("TOPIC was replaced by KAFKA_TOPIC, the name that ksqlDB has")
    return MendedStatement(text, tuple(notes))


def _parsed(text: str) -> bool:
    try:
        parse(text)
    except InvalidStatement:
        return False
    return True


def _with_kafka_topic(text: str) -> str:
    try:
        statement = parse(text)
    except InvalidStatement:
        return text
    if statement.kind is not StatementKind.CREATE_SOURCE or statement.topic is not None:
        return text
    for group in split_at_commas(list(statement.settings)):
        if group and group[0].is_word("TOPIC"):
            at = group[0].at
            return f"{text[:at]}KAFKA_TOPIC{text[at + len('TOPIC') :]}"
    return text
