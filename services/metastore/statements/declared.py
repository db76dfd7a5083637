"""Reads the columns that CREATE STREAM and CREATE TABLE declare, as ksqlDB does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.metastore.command_id import EntityType
from breakglass.services.metastore.statements.parsing import TokenCursor
from breakglass.services.metastore.statements.sql_types import SqlType, identifier, sql_type
from breakglass.services.metastore.statements.statement import (
    InvalidStatement,
    Token,
    TokenKind,
)

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
        _allowed(column, entity)
    _distinct(found)
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


def _allowed(column: DeclaredColumn, entity: EntityType) -> None:
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
            f"column {column.name}: headers have the type {expected}, not {column.type}", column.at
        )


def _distinct(columns: Sequence[DeclaredColumn]) -> None:
    names = Counter(column.name for column in columns)
    double = [column for column in columns if names[column.name] > 1]
    if double:
        raise InvalidStatement(f"Duplicate column names: {double[0].name}", double[-1].at)
    headers = [column for column in columns if column.role is ColumnRole.HEADERS]
    named = Counter(column.header for column in headers)
    if len(headers) > 1 and (None in named or max(named.values()) > 1):
        raise InvalidStatement("headers are in two columns", headers[-1].at)
