"""Makes the plan of a statement that needs no query, as ksqlDB's servers make it.

The servers execute plans and never the text of CREATE, so the plan decides the object. Fields that
have their default are left out: each server that executes plans reads those it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from breakglass.services.metastore.command_id import EntityType
from breakglass.services.metastore.statements.declared import (
    ColumnRole,
    DeclaredColumn,
    declared_columns,
)
from breakglass.services.metastore.statements.parsing import TokenCursor
from breakglass.services.metastore.statements.sql_types import SqlType, sql_type
from breakglass.services.metastore.statements.statement import (
    InvalidStatement,
    Statement,
    StatementKind,
    TokenKind,
    tokens,
)
from breakglass.services.metastore.statements.with_settings import (
    WithSettings,
    window_seconds,
    with_settings,
)

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
_KAFKA_TYPES = ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES")
_TOPIC_SETTINGS = ("PARTITIONS", "REPLICAS", "RETENTION_MS", "CLEANUP_POLICY")
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
        defined = _type_of(statement, types)
        return {"@type": "registerTypeV1", "type": str(defined), "typeName": statement.name}
    if statement.kind is StatementKind.CREATE_SOURCE and statement.elements:
        return _source(statement, types)
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
    for name in _TOPIC_SETTINGS:
        if name in settings.values:
            return f"{name} makes or checks a topic, which only a server does"
    for which in (_key_format(settings), _value_format(settings)):
        if which in _REGISTERED:
            return f"{which} has its schema registered, which only a server does"
    return ""


def _type_of(statement: Statement, types: Mapping[str, str]) -> SqlType:
    cursor = TokenCursor(list(statement.elements))
    found = sql_type(cursor, types)
    cursor.end()
    return found


def _source(statement: Statement, types: Mapping[str, str]) -> dict[str, Any]:
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
        schema = f"io.confluent.ksql.avro_schemas.{_camel(name)}Key"
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


def _camel(name: str) -> str:
    """*name* by Guava's CaseFormat, from UPPER_UNDERSCORE to UPPER_CAMEL."""
    return "".join([word[:1].upper() + word[1:].lower() for word in name.split("_")])


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
        if form == "KAFKA" and found.base not in _KAFKA_TYPES:
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
