"""A statement's effect on the set of objects and queries, and the tokens of its text.

Tokens are names, strings, numbers and signs, as in SqlBase.g4. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import NamedTuple

from breakglass.services.metastore.command import quoted
from breakglass.services.metastore.command_id import CommandAction, CommandId, EntityType


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
        """Whether the statement starts a query."""
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
    """The type of the entity that *name* names."""
    name: str
    """The name of the object, or the id of the query (`ALL` for all queries)."""
    or_replace: bool = False
    if_not_exists: bool = False
    if_exists: bool = False
    read_only: bool = False
    """CREATE SOURCE: statements cannot write to the object."""
    columns: tuple[str, ...] = ()
    """The columns that it declares or adds."""
    sources: tuple[str, ...] = ()
    """The sources that its query reads."""
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
        """The Kafka topic that the statement names."""
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
        """Whether the token is one of these keywords."""
        return self.form is TokenKind.WORD and self.text in words

    def is_sign(self, sign: str) -> bool:
        """Whether the token is this sign."""
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
