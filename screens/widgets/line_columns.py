"""The columns of a table: what stands in them, which of them fit, and how wide each is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from rich.cells import cell_len, set_cell_size

from breakglass.services.words.inert import inert
from breakglass.themes.roles import Role

T = TypeVar("T")

GAP = 2
"""Characters between two columns."""
LEAST_WIDTH = 8
"""A column that shrinks is never narrower."""
MOST_WIDTH = 10_000
CUT = "…"
"""Stands where a text that does not fit is cut."""
LEAST_HEAD = 3
"""Characters that are left of a text before its tail."""


class Cell(NamedTuple):
    """What stands in one place of a row."""

    text: str
    role: Role | None = None


@dataclass(frozen=True)
class LineColumn(Generic[T]):
    """A column: its title, and what of a row stands in it."""

    title: str
    cell: Callable[[T], Cell]
    right: bool = False
    """Numbers stand to the right."""
    least_width: int = 0
    """The column is left out where the table has fewer columns of characters than this."""
    most: int = 40
    """No wider than this, whatever the rows hold."""
    shrinks: bool = False
    """Becomes narrower first where not everything fits."""
    tail: str = ""
    """What begins with the last of these stays where a text is cut: the ``-117`` of
    ``orders-117``."""
    yields: int = 0
    """Left out where not everything fits, be all that shrinks as narrow as it gets: 1 before 2;
    0 always stays."""


def needed_widths(columns: Iterable[LineColumn[T]], rows: Sequence[T]) -> dict[str, int]:
    """How wide each column would like to be for *rows*, by its title."""
    return {column.title: _needed_width(column, rows) for column in columns}


def _needed_width(column: LineColumn[T], rows: Iterable[T]) -> int:
    widest = max([_cells(column.cell(row).text) for row in rows], default=0)
    return min(max(widest, cell_len(column.title)), column.most)


def arranged(
    columns: Sequence[LineColumn[T]], needed: Mapping[str, int], width: int
) -> tuple[tuple[LineColumn[T], int], ...]:
    """The columns that are shown in *width* characters, and how wide each is."""

    def wide(shown: Iterable[LineColumn[T]]) -> list[int]:
        return [needed.get(column.title, len(column.title)) for column in shown]

    shown = [column for column in columns if width >= column.least_width]
    for turn in sorted({column.yields for column in shown if column.yields}):
        narrow = [
            min(own, _least(column)) if column.shrinks else own
            for column, own in zip(shown, wide(shown), strict=True)
        ]
        if _over(narrow, width) <= 0:
            break
        shown = [column for column in shown if column.yields != turn]
    widths = wide(shown)
    return tuple(zip(shown, _shrunk(shown, widths, _over(widths, width)), strict=True))


def fitted(text: str, width: int, *, right: bool = False, tail: str = "") -> str:
    """*text* in exactly *width* cells; a sign stands where it is cut, before its *tail*."""
    length = cell_len(text)
    if length <= width:
        return " " * (width - length) + text if right else text + " " * (width - length)
    if width <= 1:
        return set_cell_size(text, width)
    kept = _tail(text, tail, width - len(CUT) - LEAST_HEAD)
    return set_cell_size(text, width - len(CUT) - cell_len(kept)) + CUT + kept


def _tail(text: str, sign: str, room: int) -> str:
    """*text* from the last *sign* on; nothing where there is none, or not room enough."""
    start = text.rfind(sign) if sign else -1
    return text[start:] if start >= 0 and cell_len(text[start:]) <= room else ""


def _over(widths: Sequence[int], width: int) -> int:
    """By how many characters columns of *widths* are wider than *width*."""
    return sum(widths) + GAP * len(widths) - width


def _cells(text: str) -> int:
    return len(text) if text.isascii() and text.isprintable() else cell_len(inert(text))


def _least(column: LineColumn[Any]) -> int:
    return max(len(column.title), LEAST_WIDTH)


def _shrunk(columns: Sequence[LineColumn[Any]], wide: Sequence[int], over: int) -> list[int]:
    """Widths that together are *over* less, as far as columns shrink: the widest ones first."""
    wide = list(wide)
    least = [_least(column) if column.shrinks else MOST_WIDTH for column in columns]
    for _ in range(over):
        spare = [place for place, least_here in enumerate(least) if wide[place] > least_here]
        if not spare:
            break
        wide[max(spare, key=wide.__getitem__)] -= 1
    return wide
