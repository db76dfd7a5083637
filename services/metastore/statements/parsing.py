"""Reads one statement, by the rules of SqlBase.g4 that change the set of objects and queries."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from breakglass.services.metastore.command_id import EntityType
from breakglass.services.metastore.statements.statement import Statement, StatementKind
from breakglass.services.metastore.statements.tokens import (
    InvalidStatement,
    Token,
    TokenKind,
    tokens,
)

_ENTITIES = {"STREAM": EntityType.STREAM, "TABLE": EntityType.TABLE, "TYPE": EntityType.TYPE}
_BY_ID = {
    "TERMINATE": (StatementKind.TERMINATE, EntityType.TERMINATE),
    "PAUSE": (StatementKind.PAUSE, EntityType.PAUSE),
    "RESUME": (StatementKind.RESUME, EntityType.RESUME),
}


class UnsupportedStatement(InvalidStatement):
    """A statement that is none of those that a command topic carries, or that is decided here."""


def parse(text: str) -> Statement:
    """Read *text*, one statement with or without its ';'.

    Raises:
        UnsupportedStatement: it is of another kind.
        InvalidStatement: it is none.
    """
    cursor = _Cursor(tokens(text))
    statement = _statement(cursor)
    cursor.end()
    return statement


class _Cursor:
    """Goes through tokens."""

    def __init__(self, found: list[Token]) -> None:
        while found and found[-1].is_sign(";"):
            found.pop()
        if any(one.is_sign(";") for one in found):
            raise InvalidStatement("there is more than one statement")
        self._tokens = found
        self._at = 0

    @property
    def next(self) -> Token:
        """The next one; an empty sign at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else Token(TokenKind.SIGN, "")

    def rest(self) -> list[Token]:
        """All that follow; then it is at the end."""
        found = self._tokens[self._at :]
        self._at = len(self._tokens)
        return found

    def take(self) -> Token:
        """The next one."""
        found = self.next
        if not found.text and found.form is TokenKind.SIGN:
            raise InvalidStatement("it ends too early")
        self._at += 1
        return found

    def words(self, *words: str) -> bool:
        """Take these keywords, if they come next."""
        end = self._at + len(words)
        there = self._tokens[self._at : end]
        if len(there) == len(words) and all(map(Token.is_word, there, words)):
            self._at = end
            return True
        return False

    def sign(self, sign: str) -> bool:
        """Take this sign, if it comes next."""
        if self.next.is_sign(sign):
            self._at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        """Take this keyword or sign. Raises: InvalidStatement."""
        if not (self.words(word) or self.sign(word)):
            raise InvalidStatement(f"{word} is expected before {self.next.text or 'the end'!r}")

    def name(self) -> str:
        """Take a name. Raises: InvalidStatement."""
        found = self.take()
        if found.form not in (TokenKind.WORD, TokenKind.NAME):
            raise InvalidStatement(f"a name is expected in place of {found.text!r}")
        return found.text

    def inner(self) -> list[Token]:
        """Take what is between the parentheses that open here. Raises: InvalidStatement."""
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
        """Raises: InvalidStatement where anything is left."""
        if self._at < len(self._tokens):
            raise InvalidStatement(f"{self.next.text!r} is not expected")


def _statement(cursor: _Cursor) -> Statement:
    first = cursor.take()
    if first.is_word("CREATE"):
        return _create(cursor)
    if first.is_word("DROP"):
        return _drop(cursor)
    if first.is_word("INSERT"):
        return _insert(cursor)
    if first.is_word("ALTER"):
        return _alter(cursor)
    if first.is_word(*_BY_ID):
        return _by_id(cursor, first.text)
    raise UnsupportedStatement(f"{first.text} begins no statement that is decided here")


def _create(cursor: _Cursor) -> Statement:
    or_replace = cursor.words("OR", "REPLACE")
    read_only = cursor.words("SOURCE")
    entity = _entity(cursor)
    if_not_exists = cursor.words("IF", "NOT", "EXISTS")
    name = cursor.name()
    if entity is EntityType.TYPE:
        cursor.expect("AS")
        text = _spelled(cursor.rest())
        if or_replace or read_only or not text:
            raise InvalidStatement("a type is CREATE TYPE NAME AS another type")
        made = Statement(StatementKind.CREATE_TYPE, entity, name, type_text=text)
        return replace(made, if_not_exists=if_not_exists)
    made = Statement(StatementKind.CREATE_SOURCE, entity, name, or_replace, if_not_exists)
    if cursor.next.is_sign("("):
        inner = cursor.inner()
        made = replace(made, columns=columns_of(inner), primary_key=_has_primary_key(inner))
    properties = _properties(cursor)
    made = replace(made, read_only=read_only, properties=properties)
    if not cursor.words("AS"):
        return made
    if read_only or made.columns:
        raise InvalidStatement("CREATE ... AS SELECT has no columns of its own")
    return replace(made, kind=StatementKind.CREATE_AS, sources=_sources(cursor.rest()))


def _insert(cursor: _Cursor) -> Statement:
    cursor.expect("INTO")
    name = cursor.name()
    properties = _properties(cursor)
    if not cursor.next.is_word("SELECT"):
        raise UnsupportedStatement("INSERT INTO ... VALUES writes no command")
    sources = _sources(cursor.rest())
    made = Statement(StatementKind.INSERT_AS, EntityType.STREAM, name, sources=sources)
    return replace(made, properties=properties)


def _drop(cursor: _Cursor) -> Statement:
    entity = _entity(cursor)
    if_exists = cursor.words("IF", "EXISTS")
    kind = StatementKind.DROP_TYPE if entity is EntityType.TYPE else StatementKind.DROP_SOURCE
    made = Statement(kind, entity, cursor.name(), if_exists=if_exists)
    if kind is StatementKind.DROP_SOURCE and cursor.words("DELETE", "TOPIC"):
        raise UnsupportedStatement(
            "DELETE TOPIC deletes a topic, which only a ksqlDB server may: leave it out"
        )
    return made


def _alter(cursor: _Cursor) -> Statement:
    entity = _entity(cursor)
    if entity is EntityType.TYPE:
        raise UnsupportedStatement("a type is not altered: drop it and create it again")
    name, columns = cursor.name(), []
    for option in _split(cursor.rest()):
        one = _Cursor(option)
        one.expect("ADD")
        one.words("COLUMN")
        columns.append(one.name())
        if not one.rest():
            raise InvalidStatement(f"column {columns[-1]} has no type")
    return Statement(StatementKind.ALTER, entity, name, columns=tuple(columns))


def _by_id(cursor: _Cursor, word: str) -> Statement:
    kind, entity = _BY_ID[word]
    if cursor.next.is_word("CLUSTER"):
        raise UnsupportedStatement("TERMINATE CLUSTER ends the service: it is not written here")
    return Statement(kind, entity, cursor.name())


def _entity(cursor: _Cursor) -> EntityType:
    found = cursor.take()
    if found.form is TokenKind.WORD and found.text in _ENTITIES:
        return _ENTITIES[found.text]
    raise UnsupportedStatement(f"{found.text} is nothing that is decided here")


def _properties(cursor: _Cursor) -> dict[str, str]:
    if not cursor.words("WITH"):
        return {}
    found = {}
    for one in _split(cursor.inner()):
        if len(one) < 3 or not one[1].is_sign("="):
            raise InvalidStatement("WITH holds NAME=value, ...")
        found[one[0].text.upper()] = "".join([token.text for token in one[2:]])
    return found


def columns_of(inner: list[Token]) -> tuple[str, ...]:
    """The names of the columns in what is between the parentheses."""
    return tuple([one[0].text for one in _split(inner) if one])


def _has_primary_key(inner: list[Token]) -> bool:
    return any(one.is_word("PRIMARY") and other.is_word("KEY") for one, other in pairwise(inner))


def _split(inner: list[Token]) -> list[list[Token]]:
    """What stands between commas, but for those within brackets of its own."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for one in inner:
        depth += one.form is TokenKind.SIGN and one.text in "(<"
        depth -= one.form is TokenKind.SIGN and one.text in ")>"
        if not depth and one.is_sign(","):
            parts.append([])
        else:
            parts[-1].append(one)
    return parts


def _sources(query: list[Token]) -> tuple[str, ...]:
    """What the query reads: the names behind FROM and JOIN."""
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


def _spelled(found: list[Token]) -> str:
    """Tokens as one text, spaced alike whoever wrote them."""
    text = " ".join(f"`{one.text}`" if one.form is TokenKind.NAME else one.text for one in found)
    for sign in "<>(),":
        text = text.replace(f" {sign}", sign)
    return text.replace("<  ", "<").replace("< ", "<").replace("( ", "(")
