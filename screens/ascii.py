"""Drawing with ASCII alone, for terminals that have no other glyphs or lost their locale.

Screens draw as they like; the last step before the terminal writes each glyph with the sign of
this table. What stands in none (a name in another script) becomes `?`, as wide as it was.
"""

from __future__ import annotations

from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from typing_extensions import override

_SAME_SIGN = {
    "-": "─━╌╍┄┅┈┉═╴╶╸╺▔\u2010\u2011\u2013—―\u2212⎺⎻",
    "|": "│┃╎╏┆┇┊┋║╵╷╹╻▏▎▍▌▋▊▐▕¦",
    "+": "┌┍┎┏┐┑┒┓└┕┖┗┘┙┚┛├┝┞┟┠┡┢┣┤┥┦┧┨┩┪┫┬┭┮┯┰┱┲┳┴┵┶┷┸┹┺┻┼┽┾┿╀╁╂╃╄╅╆╇╈╉╊╋"
    "╒╓╔╕╖╗╘╙╚╛╜╝╞╟╠╡╢╣╤╥╦╧╨╩╪╫╬╭╮╯╰✓✔",
    "#": "█▓▒■▉▟▙▜▛",
    ":": "░▪▖▗▘▝▚▞",
    "_": "▁⎽",
    ".": "▂·…\u2024⋯",
    "=": "▃▄≡",
    "o": "▅●◉◆○◌◦•⭘",
    "O": "▆▇",
    "^": "↑▲△⌃⇧⬆▀\u02c4",
    "v": "↓▼▽▾⇩⬇˅",
    ">": "→▶▸►⇒➜\u203a»⮕",
    "<": "←◀◂◄⇐\u2039«",
    "x": "✗✘\u00d7✕✖",
    "!": "⚠❗",
    "~": "≈\u223c",
    "'": "\u2018\u2019",
    '"': "“”",
    "D": "Δ∆",
    " ": "\u00a0\u2007\u202f",
}
_TABLE = {ord(glyph): sign for sign, glyphs in _SAME_SIGN.items() for glyph in glyphs}


@lru_cache(4096)
def in_ascii(text: str) -> str:
    """Return *text* in ASCII, in as many cells of the terminal as it had."""
    if text.isascii():
        return text
    known = text.translate(_TABLE)
    return "".join(
        letter if letter.isascii() else "?" * get_character_cell_size(letter) for letter in known
    )


class AsciiFilter(LineFilter):
    """An app adds it to `get_line_filters` where the terminal has ASCII only."""

    @override
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.text.isascii()
            else Segment(in_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]
