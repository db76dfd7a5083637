"""The words of a ksqlDB statement: names, strings, numbers and signs, as SqlBase.g4 has them."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\r\n]*|/\*.*?\*/)
      | '(?P<string>(?:[^']|'')*)'
      | `(?P<back>(?:[^`]|``)*)`
      | "(?P<double>(?:[^"]|"")*)"
      | (?P<word>[A-Za-z_][A-Za-z0-9_@]*)
      | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
      | (?P<sign>[^\s'`"])""",
    re.VERBOSE | re.DOTALL,
)


class InvalidStatement(ValueError):
    """Text that is no statement; the message says why."""


class TokenKind(Enum):
    """What a token is."""

    WORD = auto()
    """A keyword, or a name without quotes."""
    NAME = auto()
    """A quoted name."""
    STRING = auto()
    NUMBER = auto()
    SIGN = auto()


class Token(NamedTuple):
    """One token. Words are in capitals, quoted ones without their quotes."""

    form: TokenKind
    text: str

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords."""
        return self.form is TokenKind.WORD and self.text in words

    def is_sign(self, sign: str) -> bool:
        """Whether it is this sign."""
        return self.form is TokenKind.SIGN and self.text == sign


def tokens(text: str) -> list[Token]:
    """Cut *text* into tokens; blanks and comments are left out.

    Raises: InvalidStatement for a quote that is not closed.
    """
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidStatement(f"a quote at character {at + 1} is not closed")
        at = match.end()
        token = _token(match)
        if token is not None:
            found.append(token)
    return found


def _token(match: re.Match[str]) -> Token | None:
    kind, text = match.lastgroup, match.group(match.lastgroup or 0)
    if kind == "string":
        return Token(TokenKind.STRING, text.replace("''", "'"))
    if kind == "back":
        return Token(TokenKind.NAME, text.replace("``", "`"))
    if kind == "double":
        return Token(TokenKind.NAME, text.replace('""', '"'))
    if kind == "word":
        return Token(TokenKind.WORD, text.upper())
    if kind == "number":
        return Token(TokenKind.NUMBER, text)
    return Token(TokenKind.SIGN, text) if kind == "sign" else None
