r"""What records hold, in words: keys, values and headers as text, JSON or bytes in hex.

Nothing of it is trusted: every line is inert, lines and their number are bounded, and neither a
value of 10 MB nor JSON nested a hundred thousand deep costs more than its beginning. Bytes that
are no UTF-8 become ``\xff`` where text is wanted.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from breakglass.services.words.inert import CUT, bounded, inert
from breakglass.services.words.json_lines import NotJson, json_lines

NULL = "null"
EMPTY = "(empty)"
BYTES_A_CHARACTER = 8
"""More than any character takes, so that blanks of indented JSON find room too."""
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
    """Characters of one line; a longer line goes on in the next one."""
    bytes: int = 64 * 1024
    """Of what is shown; what lies behind is not even looked at."""
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
    told = _limited(lines, kept, size, limits)
    return Shown(told.lines, "; ".join(one for one in (note, told.note) if one))


def preview(kept: bytes | None, size: int, form: TextForm, limit: int) -> str:
    """The beginning on one line of *limit* characters at most."""
    if kept is None:
        return NULL
    if not kept:
        return EMPTY
    kept = kept[: BYTES_A_CHARACTER * limit]
    told = bounded(_one_line(kept, size, form, limit), limit)
    if len(kept) < size and not told.endswith(CUT):
        return bounded(told, limit - len(CUT)) + CUT
    return told


def _one_line(kept: bytes, size: int, form: TextForm, limit: int) -> str:
    """Its beginning, on one line or to be made one."""
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
        letters = "".join(chr(one) if one in PRINTABLE else "." for one in part)
        yield f"{at:08x}  {columns}  |{letters}|"


def _text_lines(kept: bytes, size: int) -> Iterator[str]:
    for line in _decoded(kept, size).split("\n"):
        yield inert(line)


def _decoded(kept: bytes, size: int) -> str:
    """UTF-8, and escapes for what is none; a character that was cut in two is left out."""
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
