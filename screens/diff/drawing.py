"""Pieces of text drawn in cells: cut to their width, with what differs in its own style."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from breakglass.screens.diff.pieces import ColumnPiece
from breakglass.services.divergence.text import Span

CUT_SIGN = "…"


def segments_of(
    text: str, spans: Iterable[Span], base: Style, different: Style
) -> Iterator[Segment]:
    """*text* with the characters of *spans* in the style *different*."""
    at = 0
    for start, end in spans:
        if at < start:
            yield Segment(text[at:start], base)
        if start < end:
            yield Segment(text[start:end], different)
        at = max(at, end)
    if at < len(text):
        yield Segment(text[at:], base)


def piece_segments(piece: ColumnPiece, base: Style, different: Style) -> Iterator[Segment]:
    """*piece* in exactly its width; what is cut ends with a sign."""
    width, text = max(piece.width, 0), piece.text
    length = cell_len(text)
    if length > width:
        kept = _fitting(text, width - len(CUT_SIGN))
        yield from segments_of(text[:kept], clipped(piece.spans, kept), base, different)
        if width:
            yield Segment(CUT_SIGN, base)
        left = width - len(CUT_SIGN) - cell_len(text[:kept])
        if left > 0:
            yield Segment(" " * left, base)
        return
    if piece.right and length < width:
        yield Segment(" " * (width - length), base)
    yield from segments_of(text, piece.spans, base, different)
    if not piece.right and length < width:
        yield Segment(" " * (width - length), base)


def line_segments(
    pieces: Iterable[ColumnPiece], width: int, base: Style, different: Style
) -> list[Segment]:
    """*pieces* one after another with a space between, in exactly *width* cells.

    As segments: each `Strip` costs as much as ten of them.
    """
    found: list[Segment] = []
    length = -1
    for piece in pieces:
        if found or length >= 0:
            found.append(Segment(" ", base))
        found.extend(piece_segments(piece, base, different))
        length += 1 + max(piece.width, 0)
    length = max(length, 0)
    if length < width:
        found.append(Segment(" " * (width - length), base))
    elif length > width:
        return list(Strip(found, length).crop(0, width))
    return found


def clipped(spans: Iterable[Span], end: int) -> Iterator[Span]:
    """*spans* as far as they lie before the character *end*."""
    for span in spans:
        if span[0] < end:
            yield span[0], min(span[1], end)


def _fitting(text: str, width: int) -> int:
    """How many characters of *text* fit into *width* cells."""
    if width <= 0:
        return 0
    if text.isascii():
        return width
    cells = 0
    for place, character in enumerate(text):
        cells += cell_len(character)
        if cells > width:
            return place
    return len(text)
