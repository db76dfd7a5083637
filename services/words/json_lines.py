"""JSON spread over lines without being parsed into values: as written, in constant stack.

Numbers keep their digits, objects their duplicate keys and strings their escapes; nesting costs
a character a level, however deep; and the beginning of a text that was cut still has its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from breakglass.services.words.inert import inert

INDENT = "  "
DEEPEST_INDENT = 16
"""Levels that are indented; those below stand where the last of them does."""
LONGEST_CUT_TOKEN = 400
"""Characters of a number or a word that the end of a cut text may have split."""

SPACE = re.compile(r"[ \t\n\r]*")
TOKEN = re.compile(
    r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"'
    r"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.eE+-])"
    r"|true|false|null|[][{}:,]"
)
CLOSES = {"{": "}", "[": "]"}

VALUE, KEY, COLON, NEXT = "a value", "a key", "a colon", "a comma"
"""What may come where."""


class NotJson(ValueError):
    """The text is none; the message says from which character on."""


def json_lines(text: str, *, whole: bool) -> Iterator[str]:
    """The lines of *text*, inert and indented by two; one that is not *whole* ends where it is cut.

    Raises:
        NotJson: as soon as that shows, which may be after some lines.
    """
    printer = _Printer()
    at = _behind_space(text, 0)
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            if not whole and _may_be_cut(text, at):
                break
            raise NotJson(f"at character {at}")
        yield from printer.take(found.group(), at)
        at = _behind_space(text, found.end())
    if whole and not printer.done:
        raise NotJson(f"it ends at character {at} where {printer.wanted} should be")
    yield from printer.rest()


def _behind_space(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return at if found is None else found.end()


def _may_be_cut(text: str, at: int) -> bool:
    return text[at] == '"' or len(text) - at < LONGEST_CUT_TOKEN


class _Printer:
    """Takes tokens in their order, refuses one out of place, and gives lines as they are full."""

    def __init__(self) -> None:
        self.wanted = VALUE
        self._open: list[str] = []
        """What closes each container that is open."""
        self._line = ""
        self._fresh = False
        """A container was just opened: it may close at once, on the same line."""
        self._begun = False

    @property
    def done(self) -> bool:
        """One whole value was taken."""
        return self._begun and not self._open and self.wanted == NEXT

    def take(self, piece: str, at: int) -> Iterator[str]:
        """The lines that *piece* makes full."""
        if self.done or not self._allowed(piece):
            raise NotJson(f"at character {at}")
        self._begun = True
        if piece in ("}", "]"):
            yield from self._close(piece)
            return
        if self._fresh:
            self._fresh = False
            yield from self._break()
        self._line += piece
        self.wanted = self._after(piece)
        if piece in CLOSES:
            self._open.append(CLOSES[piece])
            self._fresh = True
        elif piece == ":":
            self._line += " "
        elif piece == ",":
            yield from self._break()

    def rest(self) -> Iterator[str]:
        """The line that is not full."""
        if self._line.strip():
            yield inert(self._line)

    def _allowed(self, piece: str) -> bool:
        if piece in ("}", "]"):
            closes = bool(self._open) and self._open[-1] == piece
            return closes and (self.wanted == NEXT or self._fresh)
        if piece == ",":
            return self.wanted == NEXT
        if piece == ":":
            return self.wanted == COLON
        return self.wanted == VALUE or (self.wanted == KEY and piece[0] == '"')

    def _after(self, piece: str) -> str:
        if piece == "{" or (piece == "," and self._open[-1] == "}"):
            return KEY
        if piece in ("[", ",", ":"):
            return VALUE
        return COLON if self.wanted == KEY else NEXT

    def _close(self, piece: str) -> Iterator[str]:
        self._open.pop()
        if not self._fresh:
            yield from self._break()
        self._fresh = False
        self._line += piece
        self.wanted = NEXT

    def _break(self) -> Iterator[str]:
        yield inert(self._line)
        self._line = INDENT * min(len(self._open), DEEPEST_INDENT)
