"""Parses one statement by the rules of SqlBase.g4 that change the set of objects and queries."""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.metastore.command_id import EntityType
from breakglass.services.metastore.statements.statement import (
    InvalidStatement,
    Statement,
    StatementKind,
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
        """Whether every token was taken."""
        return self._at >= len(self._tokens)

    def rest(self) -> list[Token]:
        """Take all remaining tokens."""
        found = self._tokens[self._at :]
        self._at = len(self._tokens)
        return found

    def take(self) -> Token:
        """Take the next token."""
        found = self.next
        if not found.text and found.form is TokenKind.SIGN:
            raise InvalidStatement("it ends too early", found.at)
        self._at += 1
        return found

    def words(self, *words: str) -> bool:
        """Take these keywords if they come next."""
        end = self._at + len(words)
        there = self._tokens[self._at : end]
        if len(there) == len(words) and all(map(Token.is_word, there, words)):
            self._at = end
            return True
        return False

    def sign(self, sign: str) -> bool:
        """Take this sign if it comes next."""
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
        return _insert(cursor)
    if first.is_word("ALTER"):
        return _alter(cursor)
    if first.is_word(*_BY_ID):
        return _by_id(cursor, first.text)
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
        text = _spelled(defined)
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
        made = replace(
            made,
            columns=columns_of(inner),
            elements=tuple(inner),
        )
    settings = _settings(cursor)
    properties = _properties(settings)
    made = replace(made, read_only=read_only, properties=properties, settings=tuple(settings))
    if not cursor.words("AS"):
        return made
    if read_only or made.columns:
        raise InvalidStatement("CREATE ... AS SELECT has no columns of its own")
    return replace(made, kind=StatementKind.CREATE_AS, sources=_sources(cursor.rest()))


def _insert(cursor: TokenCursor) -> Statement:
    cursor.expect("INTO")
    name = cursor.name()
    properties = _properties(_settings(cursor))
    if not cursor.next.is_word("SELECT"):
        raise UnsupportedStatement("INSERT INTO ... VALUES writes no command")
    sources = _sources(cursor.rest())
    made = Statement(StatementKind.INSERT_AS, EntityType.STREAM, name, sources=sources)
    return replace(made, properties=properties)


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


def _by_id(cursor: TokenCursor, word: str) -> Statement:
    kind, entity = _BY_ID[word]
    if cursor.next.is_word("CLUSTER"):
        raise UnsupportedStatement("TERMINATE CLUSTER ends the service: it is not written here")
    return Statement(kind, entity, cursor.name())


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


def _spelled(found: list[Token]) -> str:
    """The tokens as text with uniform spacing."""
    text = " ".join(
        f"`{token.text}`" if token.form is TokenKind.NAME else token.text for token in found
    )
    for sign in "<>(),":
        text = text.replace(f" {sign}", sign)
    return text.replace("<  ", "<").replace("< ", "<").replace("( ", "(")
