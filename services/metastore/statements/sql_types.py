"""Reads the types of columns by SqlBase.g4, and writes them as ksqlDB's plans have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from breakglass.services.metastore.statements.parsing import TokenCursor
from breakglass.services.metastore.statements.statement import (
    InvalidStatement,
    Token,
    TokenKind,
    tokens,
)

PRIMITIVES = frozenset(
    ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING", "TIME", "DATE", "TIMESTAMP", "BYTES")
)
_ALIASES = {"INT": "INTEGER", "VARCHAR": "STRING"}
_NESTED = ("ARRAY", "MAP", "STRUCT")
DEEPEST = 64
"""Types within types: deeper ones are refused, and custom types that name each other end here."""

_KEYWORDS = """
SELECT FROM AS ALL DISTINCT WHERE WITHIN WINDOW GROUP BY HAVING LIMIT AT OR AND IN NOT EXISTS
BETWEEN LIKE IS NULL TRUE FALSE MILLISECOND YEARS MONTHS DAYS HOURS MINUTES SECONDS MILLISECONDS
TUMBLING HOPPING SIZE ADVANCE RETENTION CASE WHEN THEN ELSE END JOIN FULL OUTER INNER LEFT RIGHT
ON WITH VALUES CREATE TABLE TOPIC STREAM STREAMS INSERT DELETE INTO DESCRIBE EXTENDED PRINT CAST
LIST TOPICS QUERY QUERIES TERMINATE PAUSE RESUME LOAD DROP TO RENAME SAMPLE EXPORT CATALOG
PROPERTIES BEGINNING UNSET RUN SCRIPT DECIMAL CONNECTOR CONNECTORS NAMESPACE MATERIALIZED
VIEW"""
RESERVED = frozenset(_KEYWORDS.split())
"""Keywords that name nothing without quotes: those of SqlBase.g4 that `nonReserved` lacks."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type; its text is the canonical one of plans."""

    base: str
    parts: tuple[SqlType, ...] = ()
    """The types within an array, a map or a struct."""
    names: tuple[str, ...] = ()
    """The names of a struct's fields."""
    digits: tuple[int, int] | None = None
    """Precision and scale of a decimal."""

    def __str__(self) -> str:
        if self.digits is not None:
            return "DECIMAL({}, {})".format(*self.digits)
        if self.base == "STRUCT":
            fields = zip(self.names, self.parts, strict=True)
            return f"STRUCT<{', '.join(f'`{name}` {of}' for name, of in fields) or ' '}>"
        return f"{self.base}<{', '.join(map(str, self.parts))}>" if self.parts else self.base

    @property
    def nested(self) -> bool:
        """Whether it is an array, a map or a struct."""
        return self.base in _NESTED

    def within(self) -> Iterator[SqlType]:
        """The type itself, and all types in it."""
        yield self
        for part in self.parts:
            yield from part.within()


def identifier(cursor: TokenCursor) -> str:
    """Take a name that ksqlDB's grammar allows here. Raises: InvalidStatement."""
    token = cursor.next
    name = cursor.name()
    if token.form is TokenKind.WORD and name in RESERVED:
        raise InvalidStatement(f"{name} is a keyword: as a name it needs quotes", token.at)
    if "`" in name or not name:
        raise InvalidStatement("no plan can have an empty name, or a name with '`'", token.at)
    return name


def sql_type(cursor: TokenCursor, types: Mapping[str, str], depth: int = 0) -> SqlType:
    """Take a type; *types* are the custom types, each with its definition.

    Raises: InvalidStatement.
    """
    at = cursor.next.at
    if depth > DEEPEST:
        raise InvalidStatement(f"types are nested more than {DEEPEST} deep", at)
    token = cursor.take()
    if token.is_word("ARRAY", "MAP", "STRUCT") and cursor.sign("<"):
        found = _nested(cursor, token, types, depth)
    elif token.is_word("DECIMAL"):
        found = _decimal(cursor, at)
    elif token.form in (TokenKind.WORD, TokenKind.NAME):
        found = _named(token, types, depth)
        if cursor.sign("("):
            _parameters(cursor)
    else:
        raise InvalidStatement(f"a type is expected in place of {token.text!r}", at)
    while cursor.words("ARRAY"):
        found = SqlType("ARRAY", (found,))
    return found


def _nested(cursor: TokenCursor, token: Token, types: Mapping[str, str], depth: int) -> SqlType:
    if token.text == "STRUCT":
        return _struct(cursor, types, depth)
    parts = [sql_type(cursor, types, depth + 1)]
    if token.text == "MAP":
        cursor.expect(",")
        parts.append(sql_type(cursor, types, depth + 1))
    cursor.expect(">")
    return SqlType(token.text, tuple(parts))


def _struct(cursor: TokenCursor, types: Mapping[str, str], depth: int) -> SqlType:
    fields: dict[str, SqlType] = {}
    while not cursor.sign(">"):
        if fields:
            cursor.expect(",")
        at = cursor.next.at
        name = identifier(cursor)
        if name in fields:
            raise InvalidStatement(f"Duplicate field names found in STRUCT: {name}", at)
        fields[name] = sql_type(cursor, types, depth + 1)
    return SqlType("STRUCT", tuple(fields.values()), tuple(fields))


def _decimal(cursor: TokenCursor, at: int) -> SqlType:
    cursor.expect("(")
    precision = _whole(cursor)
    cursor.expect(",")
    scale = _whole(cursor)
    cursor.expect(")")
    if not 1 <= precision >= scale >= 0:
        raise InvalidStatement(
            f"DECIMAL({precision}, {scale}) needs a precision of 1 or more, and a scale from 0 to "
            "the precision",
            at,
        )
    return SqlType("DECIMAL", digits=(precision, scale))


def _whole(cursor: TokenCursor) -> int:
    token = cursor.next
    minus = -1 if cursor.sign("-") else 1
    digits = cursor.take()
    if digits.form is not TokenKind.NUMBER or not digits.text.isdecimal():
        raise InvalidStatement(f"a whole number is expected in place of {digits.text!r}", token.at)
    if len(digits.text) > 10:
        raise InvalidStatement(f"{digits.text} is too large", token.at)
    return minus * int(digits.text)


def _named(token: Token, types: Mapping[str, str], depth: int) -> SqlType:
    name = _ALIASES.get(token.text.upper(), token.text.upper())
    if name in PRIMITIVES:
        return SqlType(name)
    definition = types.get(token.text)
    if definition is None:
        raise InvalidStatement(f"Cannot resolve unknown type: {token.text}", token.at)
    try:
        inner = TokenCursor(tokens(definition))
        found = sql_type(inner, types, depth + 1)
        inner.end()
    except InvalidStatement as error:
        raise InvalidStatement(f"type {token.text} cannot be read: {error}", token.at) from None
    return found


def _parameters(cursor: TokenCursor) -> None:
    """Take what VARCHAR(255) and VARCHAR(STRING) have in parentheses, which means nothing."""
    while True:
        token = cursor.take()
        whole = token.form is TokenKind.NUMBER and token.text.isdecimal()
        if not (whole or token.is_word("STRING")):
            raise InvalidStatement(f"a length is expected in place of {token.text!r}", token.at)
        if not cursor.sign(","):
            break
    cursor.expect(")")
