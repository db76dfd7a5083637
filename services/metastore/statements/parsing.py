"""Parses statements of ksqlDB: tokens, types, and what each does to objects and queries.

A statement's effect on the set of objects and queries, and the tokens of its text.

Tokens are names, strings, numbers and signs, as in SqlBase.g4. Pure.

Parses one statement by the rules of SqlBase.g4 that change the set of objects and queries.

Reads the types of columns by SqlBase.g4, and writes them as ksqlDB's plans have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from typing import NamedTuple

from breakglass.services.metastore.command import CommandAction, CommandId, EntityType, quoted


class StatementKind(StrEnum):
    """What a statement does."""

    CREATE_SOURCE = "create source"
    CREATE_AS = "create as select"
    INSERT_AS = "insert into"
    CREATE_TYPE = "create type"
    DROP_SOURCE = "drop source"
    DROP_TYPE = "drop type"
    ALTER = "alter"
    TERMINATE = "terminate"
    PAUSE = "pause"
    RESUME = "resume"

    @property
    def begins_query(self) -> bool:
        return self in (StatementKind.CREATE_AS, StatementKind.INSERT_AS)

    @property
    def by_query_id(self) -> bool:
        """Whether the statement concerns queries instead of objects."""
        return self in (StatementKind.TERMINATE, StatementKind.PAUSE, StatementKind.RESUME)


ALL = "ALL"
"""In place of a query's id."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement."""

    kind: StatementKind
    entity: EntityType
    name: str
    """The name of the object, or the id of the query (`ALL` for all queries)."""
    or_replace: bool = False
    if_not_exists: bool = False
    if_exists: bool = False
    read_only: bool = False
    """CREATE SOURCE: statements cannot write to the object."""
    columns: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """The properties in WITH, by their names in capitals."""
    type_text: str = ""
    """The definition of a type."""
    elements: tuple[Token, ...] = ()
    """The tokens of its columns, between the parentheses, or of the type that it defines."""
    settings: tuple[Token, ...] = ()
    """The tokens in the parentheses after WITH."""

    @property
    def topic(self) -> str | None:
        return self.properties.get("KAFKA_TOPIC")

    @property
    def command_id(self) -> CommandId:
        """The key of its command (CommandIdAssigner.java): names are quoted on creation."""
        if self.kind in (
            StatementKind.CREATE_SOURCE,
            StatementKind.CREATE_AS,
            StatementKind.INSERT_AS,
        ):
            return CommandId(self.entity, quoted(self.name), CommandAction.CREATE)
        action = {
            StatementKind.CREATE_TYPE: CommandAction.CREATE,
            StatementKind.DROP_SOURCE: CommandAction.DROP,
            StatementKind.DROP_TYPE: CommandAction.DROP,
            StatementKind.ALTER: CommandAction.ALTER,
        }.get(self.kind, CommandAction.EXECUTE)
        return CommandId(self.entity, self.name, action)


_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\r\n]*|/\*.*?\*/)
      | '(?P<string>(?:[^']|'')*)'
      | `(?P<back>(?:[^`]|``)*)`
      | "(?P<double>(?:[^"]|"")*)"
      | (?P<word>[A-Za-z_][A-Za-z0-9_@]*)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<sign>[^\s'`"])""",
    re.VERBOSE | re.DOTALL,
)


class InvalidStatement(ValueError):
    """Text that is not a statement; the message says why."""

    def __init__(self, reason: str, at: int | None = None) -> None:
        """*at* is the place in the text where the statement stops being valid, if one is known."""
        super().__init__(reason)
        self.at = at

    def placed(self, text: str) -> str:
        """The reason, with the line and the column of the place in *text*."""
        if self.at is None:
            return str(self)
        before = text[: self.at]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        return f"{self} (line {line}, column {column})"


class TokenKind(Enum):
    """The kind of a token."""

    WORD = auto()
    """A keyword, or a name without quotes."""
    NAME = auto()
    """A quoted name."""
    STRING = auto()
    NUMBER = auto()
    SIGN = auto()


class Token(NamedTuple):
    """A token. Words are in capitals; quoted names have no quotes."""

    form: TokenKind
    text: str
    at: int = 0
    """Where the token begins in the text of the statement."""

    def is_word(self, *words: str) -> bool:
        return self.form is TokenKind.WORD and self.text in words

    def is_sign(self, sign: str) -> bool:
        return self.form is TokenKind.SIGN and self.text == sign


def tokens(text: str) -> list[Token]:
    """Split *text* into tokens, without blanks and comments.

    Raises: InvalidStatement for a quote that is not closed.
    """
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidStatement("a quote is not closed", at)
        at = match.end()
        token = _token(match)
        if token is not None:
            found.append(token)
    return found


def _token(match: re.Match[str]) -> Token | None:
    kind, at = match.lastgroup, match.start()
    text = match.group(kind or 0)
    if kind == "string":
        return Token(TokenKind.STRING, text.replace("''", "'"), at)
    if kind == "back":
        return Token(TokenKind.NAME, text.replace("``", "`"), at)
    if kind == "double":
        return Token(TokenKind.NAME, text.replace('""', '"'), at)
    if kind == "word":
        return Token(TokenKind.WORD, text.upper(), at)
    if kind == "number":
        return Token(TokenKind.NUMBER, text, at)
    return Token(TokenKind.SIGN, text, at) if kind == "sign" else None


_ENTITIES = {"STREAM": EntityType.STREAM, "TABLE": EntityType.TABLE, "TYPE": EntityType.TYPE}
_BY_ID = {
    "TERMINATE": (StatementKind.TERMINATE, EntityType.TERMINATE),
    "PAUSE": (StatementKind.PAUSE, EntityType.PAUSE),
    "RESUME": (StatementKind.RESUME, EntityType.RESUME),
}


class UnsupportedStatement(InvalidStatement):
    """A statement that a command topic does not carry, or that this release does not decide."""


def parse(text: str) -> Statement:
    """Parse *text*: one statement with or without its ';'.

    Raises:
        UnsupportedStatement: the statement is of another kind.
        InvalidStatement: the text is not a statement.
    """
    cursor = TokenCursor(tokens(text))
    statement = _statement(cursor)
    cursor.end()
    return statement


class TokenCursor:
    """A position in a list of tokens."""

    def __init__(self, found: list[Token]) -> None:
        while found and found[-1].is_sign(";"):
            found.pop()
        if any(token.is_sign(";") for token in found):
            raise InvalidStatement("there is more than one statement")
        self._tokens = found
        self._at = 0

    @property
    def next(self) -> Token:
        """The next token, not taken; an empty sign at the end."""
        if self._at < len(self._tokens):
            return self._tokens[self._at]
        last = self._tokens[-1] if self._tokens else Token(TokenKind.SIGN, "")
        return Token(TokenKind.SIGN, "", last.at + len(last.text))

    @property
    def done(self) -> bool:
        return self._at >= len(self._tokens)

    def rest(self) -> list[Token]:
        found = self._tokens[self._at :]
        self._at = len(self._tokens)
        return found

    def take(self) -> Token:
        found = self.next
        if not found.text and found.form is TokenKind.SIGN:
            raise InvalidStatement("it ends too early", found.at)
        self._at += 1
        return found

    def words(self, *words: str) -> bool:
        end = self._at + len(words)
        there = self._tokens[self._at : end]
        if len(there) == len(words) and all(map(Token.is_word, there, words)):
            self._at = end
            return True
        return False

    def sign(self, sign: str) -> bool:
        if self.next.is_sign(sign):
            self._at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        """Take this keyword or sign. Raises: InvalidStatement."""
        if not (self.words(word) or self.sign(word)):
            found = self.next
            raise InvalidStatement(
                f"{word} is expected before {found.text or 'the end'!r}", found.at
            )

    def name(self) -> str:
        """Take a name. Raises: InvalidStatement."""
        found = self.take()
        if found.form not in (TokenKind.WORD, TokenKind.NAME):
            raise InvalidStatement(f"a name is expected in place of {found.text!r}", found.at)
        return found.text

    def inner(self) -> list[Token]:
        """Take the tokens in the parentheses that open here. Raises: InvalidStatement."""
        self.expect("(")
        found: list[Token] = []
        depth = 1
        while True:
            one = self.take()
            depth += one.is_sign("(") - one.is_sign(")")
            if not depth:
                return found
            found.append(one)

    def end(self) -> None:
        """Raises: InvalidStatement if any token is left."""
        if not self.done:
            raise InvalidStatement(f"{self.next.text!r} is not expected", self.next.at)


def _statement(cursor: TokenCursor) -> Statement:
    first = cursor.take()
    if first.is_word("CREATE"):
        return _create(cursor)
    if first.is_word("DROP"):
        return _drop(cursor)
    if first.is_word("INSERT"):
        cursor.expect("INTO")
        name = cursor.name()
        properties = _properties(_settings(cursor))
        if not cursor.next.is_word("SELECT"):
            raise UnsupportedStatement("INSERT INTO ... VALUES writes no command")
        sources = _sources(cursor.rest())
        made = Statement(StatementKind.INSERT_AS, EntityType.STREAM, name, sources=sources)
        return replace(made, properties=properties)
    if first.is_word("ALTER"):
        return _alter(cursor)
    if first.is_word(*_BY_ID):
        kind, entity = _BY_ID[first.text]
        if cursor.next.is_word("CLUSTER"):
            raise UnsupportedStatement("TERMINATE CLUSTER ends the service: it is not written here")
        return Statement(kind, entity, cursor.name())
    raise UnsupportedStatement(f"{first.text} begins no statement that is decided here")


def _create(cursor: TokenCursor) -> Statement:
    or_replace = cursor.words("OR", "REPLACE")
    read_only = cursor.words("SOURCE")
    entity = _entity(cursor)
    if_not_exists = cursor.words("IF", "NOT", "EXISTS")
    name = cursor.name()
    if entity is EntityType.TYPE:
        cursor.expect("AS")
        defined = cursor.rest()
        # The tokens as text with uniform spacing.
        text = " ".join(
            f"`{token.text}`" if token.form is TokenKind.NAME else token.text for token in defined
        )
        for sign in "<>(),":
            text = text.replace(f" {sign}", sign)
        text = text.replace("<  ", "<").replace("< ", "<").replace("( ", "(")
        if or_replace or read_only or not text:
            raise InvalidStatement("a type is CREATE TYPE NAME AS another type")
        made = Statement(StatementKind.CREATE_TYPE, entity, name, type_text=text)
        return replace(made, if_not_exists=if_not_exists, elements=tuple(defined))
    made = Statement(StatementKind.CREATE_SOURCE, entity, name, or_replace, if_not_exists)
    if cursor.next.is_sign("("):
        at = cursor.next.at
        inner = cursor.inner()
        if not inner:
            raise InvalidStatement("the statement does not define any columns", at)
        made = replace(made, columns=columns_of(inner), elements=tuple(inner))
    settings = _settings(cursor)
    properties = _properties(settings)
    made = replace(made, read_only=read_only, properties=properties, settings=tuple(settings))
    if not cursor.words("AS"):
        return made
    if read_only or made.columns:
        raise InvalidStatement("CREATE ... AS SELECT has no columns of its own")
    return replace(made, kind=StatementKind.CREATE_AS, sources=_sources(cursor.rest()))


def _drop(cursor: TokenCursor) -> Statement:
    entity = _entity(cursor)
    if_exists = cursor.words("IF", "EXISTS")
    kind = StatementKind.DROP_TYPE if entity is EntityType.TYPE else StatementKind.DROP_SOURCE
    made = Statement(kind, entity, cursor.name(), if_exists=if_exists)
    if kind is StatementKind.DROP_SOURCE and cursor.words("DELETE", "TOPIC"):
        raise UnsupportedStatement(
            "DELETE TOPIC deletes a topic, which only a ksqlDB server may: leave it out"
        )
    return made


def _alter(cursor: TokenCursor) -> Statement:
    entity = _entity(cursor)
    if entity is EntityType.TYPE:
        raise UnsupportedStatement("a type is not altered: drop it and create it again")
    name, columns = cursor.name(), []
    for option in split_at_commas(cursor.rest()):
        one = TokenCursor(option)
        one.expect("ADD")
        one.words("COLUMN")
        columns.append(one.name())
        if not one.rest():
            raise InvalidStatement(f"column {columns[-1]} has no type")
    return Statement(StatementKind.ALTER, entity, name, columns=tuple(columns))


def _entity(cursor: TokenCursor) -> EntityType:
    found = cursor.take()
    if found.form is TokenKind.WORD and found.text in _ENTITIES:
        return _ENTITIES[found.text]
    raise UnsupportedStatement(f"{found.text} is nothing that is decided here")


def _settings(cursor: TokenCursor) -> list[Token]:
    """The tokens in the parentheses after WITH; none without WITH."""
    if not cursor.words("WITH"):
        return []
    found = cursor.inner()
    if not found:
        raise InvalidStatement("WITH has NAME=value, ...", cursor.next.at)
    return found


def _properties(settings: list[Token]) -> dict[str, str]:
    found = {}
    for group in split_at_commas(settings) if settings else ():
        if len(group) < 3 or not group[1].is_sign("="):
            at = group[0].at if group else settings[0].at
            raise InvalidStatement("WITH has NAME=value, ...", at)
        found[group[0].text.upper()] = "".join([token.text for token in group[2:]])
    return found


def columns_of(inner: list[Token]) -> tuple[str, ...]:
    """The names of the columns in the tokens between the parentheses."""
    return tuple([group[0].text for group in split_at_commas(inner) if group])


def split_at_commas(inner: list[Token]) -> list[list[Token]]:
    """Split at commas, except for commas within brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in inner:
        depth += token.form is TokenKind.SIGN and token.text in "(<"
        depth -= token.form is TokenKind.SIGN and token.text in ")>"
        if not depth and token.is_sign(","):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _sources(query: list[Token]) -> tuple[str, ...]:
    """The sources of the query: the names after FROM and JOIN."""
    if not (query and query[0].is_word("SELECT")):
        raise InvalidStatement("a query begins with SELECT")
    found: dict[str, None] = {}
    depth = 0
    for index, one in enumerate(query[:-1]):
        depth += one.is_sign("(") - one.is_sign(")")
        compared = index and query[index - 1].is_word("DISTINCT") and _after_is(query, index - 1)
        if not depth and one.is_word("FROM", "JOIN") and not compared:
            found[query[index + 1].text] = None
    if not found:
        raise InvalidStatement("the query reads from nothing")
    return tuple(found)


def _after_is(query: list[Token], index: int) -> bool:
    """Whether the DISTINCT at *index* is part of IS [NOT] DISTINCT FROM."""
    return index > 0 and query[index - 1].is_word("IS", "NOT")


PRIMITIVES = frozenset(
    ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING", "TIME", "DATE", "TIMESTAMP", "BYTES")
)
_ALIASES = {"INT": "INTEGER", "VARCHAR": "STRING"}
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
        return self.base in ("ARRAY", "MAP", "STRUCT")

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
        cursor.expect("(")
        precision = _whole(cursor)
        cursor.expect(",")
        scale = _whole(cursor)
        cursor.expect(")")
        if not 1 <= precision >= scale >= 0:
            raise InvalidStatement(
                f"DECIMAL({precision}, {scale}) needs a precision of 1 or more, and a scale from 0 "
                "to the precision",
                at,
            )
        found = SqlType("DECIMAL", digits=(precision, scale))
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
    parts = [sql_type(cursor, types, depth + 1)]
    if token.text == "MAP":
        cursor.expect(",")
        parts.append(sql_type(cursor, types, depth + 1))
    cursor.expect(">")
    return SqlType(token.text, tuple(parts))


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
