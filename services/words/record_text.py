r"""What records contain, in words: keys, values and headers as text, JSON or bytes in hex.

Nothing in a record is trusted: every line is inert, lines and their number are bounded, and
neither a value of 10 MB nor JSON nested a hundred thousand deep costs more than its beginning.
Bytes that are not UTF-8 become ``\xff`` where text is wanted.

JSON is laid out as written, without parsing it into values: numbers keep their digits, objects
their duplicate keys and strings their escapes. Nesting costs a character a level, and the
beginning of a text that was cut still has its lines.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from breakglass.services.words.inert import CUT, bounded, inert

INDENT = "  "
DEEPEST_INDENT = 16
"""Levels that are indented; deeper levels stand where the last of them does."""
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
"""What a token may be, by its place."""


class NotJson(ValueError):
    """The text is not JSON; the message says from which character on."""


def json_lines(text: str, *, whole: bool) -> Iterator[str]:
    """The lines of *text*, inert and indented by two; a text that is not *whole* ends at its cut.

    Raises:
        NotJson: as soon as that shows, which may be after some lines.
    """
    printer = _Printer()
    at = _behind_space(text, 0)
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            if not whole and (text[at] == '"' or len(text) - at < LONGEST_CUT_TOKEN):
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


class _Printer:
    """Takes tokens in their order, refuses a misplaced token, and gives lines as they are full."""

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
        """A whole value was taken."""
        return self._begun and not self._open and self.wanted == NEXT

    def take(self, piece: str, at: int) -> Iterator[str]:
        """The lines that *piece* makes full."""
        if self.done or not self._allowed(piece):
            raise NotJson(f"at character {at}")
        self._begun = True
        if piece in ("}", "]"):
            self._open.pop()
            if not self._fresh:
                yield from self._break()
            self._fresh = False
            self._line += piece
            self.wanted = NEXT
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

    def _break(self) -> Iterator[str]:
        yield inert(self._line)
        self._line = INDENT * min(len(self._open), DEEPEST_INDENT)


NULL = "null"
EMPTY = "(empty)"
BYTES_A_CHARACTER = 8
"""More than any character takes, to leave room for the blanks of indented JSON."""
PRINTABLE = range(0x20, 0x7F)


class TextForm(StrEnum):
    """How bytes are shown."""

    TEXT = "text"
    JSON = "JSON"
    HEX = "hex"

    @property
    def next(self) -> TextForm:
        """The form after this one, round and round."""
        forms = tuple(TextForm)
        return forms[(forms.index(self) + 1) % len(forms)]


@dataclass(frozen=True, slots=True)
class TextLimits:
    """How much is shown at most."""

    lines: int = 2_000
    columns: int = 1_000
    """Characters of one line; a longer line is folded."""
    bytes: int = 64 * 1024
    """Bytes shown; the bytes after them are not even looked at."""
    hex_bytes: int = 16
    """Bytes on one line of hex; an even number."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Bytes in words."""

    lines: tuple[str, ...]
    """Inert; none is longer than the limits allow."""
    note: str = ""
    """What is not shown, or why it is not shown as it was asked for; empty: all is well."""


ALL = TextLimits()


def shown(kept: bytes | None, size: int, form: TextForm, limits: TextLimits = ALL) -> Shown:
    """*kept*, the beginning of *size* bytes or all of them; None is a null.

    What was asked for as JSON and is none is shown as text, with a note.
    """
    if kept is None:
        return Shown((NULL,))
    if not kept:
        return Shown((EMPTY,))
    kept, note = kept[: limits.bytes], ""
    if form is TextForm.JSON:
        lines = json_lines(_decoded(kept, size), whole=len(kept) == size)
        try:
            return _limited(lines, kept, size, limits)
        except NotJson as error:
            note = f"not JSON ({error}), so it is shown as text"
    lines = hex_lines(kept, limits.hex_bytes) if form is TextForm.HEX else _text_lines(kept, size)
    shown_lines = _limited(lines, kept, size, limits)
    return Shown(shown_lines.lines, "; ".join(part for part in (note, shown_lines.note) if part))


def preview(kept: bytes | None, size: int, form: TextForm, limit: int) -> str:
    """The beginning on one line of *limit* characters at most."""
    if kept is None:
        return NULL
    if not kept:
        return EMPTY
    kept = kept[: BYTES_A_CHARACTER * limit]
    begin = bounded(_one_line(kept, size, form, limit), limit)
    if len(kept) < size and not begin.endswith(CUT):
        return bounded(begin, limit - len(CUT)) + CUT
    return begin


def _one_line(kept: bytes, size: int, form: TextForm, limit: int) -> str:
    """The beginning of *kept*, on one line or on lines that the caller joins."""
    if form is TextForm.JSON:
        with suppress(NotJson):
            lines = islice(json_lines(_decoded(kept, size), whole=len(kept) == size), limit)
            return " ".join(line.strip() for line in lines)
    return kept.hex(" ") if form is TextForm.HEX else _decoded(kept, size)


def hex_lines(content: bytes, width: int) -> Iterator[str]:
    """``00000010  7b 22 61 22  3a 31 7d 0a  |{"a":1}.|``, *width* bytes a line."""
    half = width // 2
    room = 3 * half - 1
    for at in range(0, len(content), width):
        part = content[at : at + width]
        columns = f"{part[:half].hex(' '):{room}}  {part[half:].hex(' '):{room}}"
        letters = "".join(chr(byte) if byte in PRINTABLE else "." for byte in part)
        yield f"{at:08x}  {columns}  |{letters}|"


def _text_lines(kept: bytes, size: int) -> Iterator[str]:
    for line in _decoded(kept, size).split("\n"):
        yield inert(line)


def _decoded(kept: bytes, size: int) -> str:
    """UTF-8, with escapes for invalid bytes; a character that was cut in two is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return decoder.decode(kept, final=len(kept) >= size)


def _limited(lines: Iterator[str], kept: bytes, size: int, limits: TextLimits) -> Shown:
    """As many of *lines* as may be shown, long ones folded."""
    folded = tuple(islice(_folded(lines, limits.columns), limits.lines + 1))
    notes = []
    if len(folded) > limits.lines:
        folded = folded[: limits.lines]
        notes.append(f"the first {limits.lines:,} lines")
    if len(kept) < size:
        notes.append(f"the first {len(kept):,} of {size:,} bytes")
    return Shown(folded, f"{' of '.join(notes)} are shown" if notes else "")


def _folded(lines: Iterator[str], columns: int) -> Iterator[str]:
    for line in lines:
        for at in range(0, max(len(line), 1), columns):
            yield line[at : at + columns]
