"""A table drawn line by line, as fast with 100,000 rows as with ten.

Rows are values; columns say how one becomes cells. The cursor stays on its row, found again by
its key, whatever rows come, go or change places. Nothing of a cell is ever read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import indexOf, is_
from textwrap import wrap
from typing import Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from typing_extensions import override

from breakglass.services.words.inert import inert
from breakglass.themes.roles import Role, Words, role_style

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


@dataclass(frozen=True)
class LineColumn(Generic[T]):
    """A column: its title, and what of a row stands in it."""

    title: str
    cell: Callable[[T], Words | str]
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

    def words(self, row: T) -> Words:
        cell = self.cell(row)
        return Words(cell) if isinstance(cell, str) else cell


def needed_widths(columns: Iterable[LineColumn[T]], rows: Sequence[T]) -> dict[str, int]:
    """How wide each column would like to be for *rows*, by its title."""
    return {
        column.title: min(
            max([_cells(column.words(row).text) for row in rows] + [cell_len(column.title)]),
            column.most,
        )
        for column in columns
    }


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
    room = width - len(CUT) - LEAST_HEAD
    start = text.rfind(tail) if tail else -1
    kept = text[start:] if start >= 0 and cell_len(text[start:]) <= room else ""
    return set_cell_size(text, width - len(CUT) - cell_len(kept)) + CUT + kept


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


SAMPLE = 300
"""Rows looked at to find how wide a column has to be."""


class LineTable(ScrollView, Generic[T], can_focus=True, inherit_bindings=False):
    """Rows under a header, with a cursor and marks.

    The cursor `>` has the first column of characters; where rows can be marked, the mark `*` has
    the second one.
    """

    DEFAULT_CSS = """
    LineTable { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "jump(0)", "First row", show=False),
        Binding("end,G", "jump(-1)", "Last row", show=False),
        Binding("enter", "choose", "Open", show=False),
    ]

    class OfRow(Message):
        """Something concerns *row* of *table*; None: the table is empty."""

        def __init__(self, table: LineTable[Any], row: Any) -> None:
            super().__init__()
            self.table = table
            self.row = row

        @property
        def control(self) -> LineTable[Any]:
            return self.table

    class Moved(OfRow):
        """The cursor is on another row, or its row has changed."""

    class Chosen(OfRow):
        """Enter on a row."""

    def __init__(
        self,
        columns: Sequence[LineColumn[T]],
        key: Callable[[T], Hashable],
        *,
        empty: str = "",
        lone: bool = True,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """One of several tables on a screen is not *lone*: its cursor is seen with the focus."""
        super().__init__(id=id, classes=classes)
        self._columns, self._key, self._lone = tuple(columns), key, lone
        self._rows: Sequence[T] = ()
        self._cursor = 0
        self._marked: Container[Hashable] | None = None
        """The keys of marked rows; None: rows of this table are never marked."""
        self._layout: tuple[tuple[LineColumn[T], int], ...] = ()
        self._needed: dict[str, int] = {}
        """How wide each column would like to be."""
        self._empty = empty
        self._plain: Style | None = None
        """The style of the table while lines are drawn: the stylesheet answers slowly."""

    @property
    def rows(self) -> Sequence[T]:
        return self._rows

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def current(self) -> T | None:
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    def set_rows(self, rows: Sequence[T], *, marked: Container[Hashable] | None = None) -> None:
        """Show *rows* instead; the cursor follows its row, or stays in its place."""
        before = self.current
        self._rows = rows
        if marked is not None:
            self._marked = marked
        self._cursor = self._place_of(before)
        self._needed = self._measure()
        self._arrange()
        # Found to be needed only after the layout, a bar would have all laid out again.
        self.virtual_size = Size(0, len(self._rows) + 1)
        if self.most_lines:
            self.show_vertical_scrollbar = self.virtual_size.height > self.most_lines
        self._show_cursor()
        self.refresh()
        if self.current is not before:
            self.post_message(self.Moved(self, self.current))

    def set_marked(self, marked: Container[Hashable]) -> None:
        first, self._marked = self._marked is None, marked
        if first:
            self._arrange()
        self.refresh()

    def set_empty(self, text: str) -> None:
        if text != self._empty:
            self._empty = text
            if not self._rows:
                self.refresh()

    def set_columns(self, columns: Sequence[LineColumn[T]]) -> None:
        self._columns = tuple(columns)
        self._needed = self._measure()
        self._arrange()
        self.refresh()

    def move_to(self, key: Hashable) -> bool:
        """Put the cursor on the row of *key*; False if there is none."""
        if (number := self.find(key)) is not None:
            self._put(number)
        return number is not None

    def find(self, key: Hashable) -> int | None:
        return next((at for at, row in enumerate(self._rows) if self._key(row) == key), None)

    def action_move(self, by: int) -> None:
        self._put(self._cursor + by)

    def action_page(self, by: int) -> None:
        self._put(self._cursor + by * max(self.size.height - 2, 1))

    def action_jump(self, to: int) -> None:
        self._put(len(self._rows) - 1 if to < 0 else to)

    def action_choose(self) -> None:
        if self.current is not None:
            self.post_message(self.Chosen(self, self.current))

    def on_click(self, event: Click) -> None:
        row = event.y - 1 + self.scroll_offset.y
        if event.y > 0 and row < len(self._rows):
            again = row == self._cursor
            self._put(row)
            if again:
                self.action_choose()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_resize(self, _: Resize) -> None:
        before = self._layout
        self._arrange()
        if self._layout != before:
            self.refresh()  # The lines of the old columns have been painted.
        self._show_cursor()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    @override
    def render_lines(self, crop: Region) -> list[Strip]:
        self._plain = self.rich_style
        try:
            return super().render_lines(crop)
        finally:
            self._plain = None

    def render_line(self, y: int) -> Strip:
        """The header stays; below it are the rows that are scrolled to."""
        width, plain = self.size.width, self._plain or self.rich_style
        if y == 0:
            style = self._style(Role.HEADING)
            segments = [Segment(" " * self._signs, style)]
            for column, wide in self._layout:
                segments.append(Segment(fitted(column.title, wide, right=column.right), style))
                segments.append(Segment(" " * GAP, style))
            return _line(segments, width, style)
        number = y - 1 + self.scroll_offset.y
        if not self._rows:
            told = wrap(inert(self._empty), max(width - 2, 1))[y - 1 : y]
            return _line(
                [Segment(f" {line}", self._style(Role.MUTED)) for line in told], width, plain
            )
        if number >= len(self._rows):
            return Strip.blank(width, plain)
        return self._row(number, width, plain)

    def _row(self, number: int, width: int, plain: Style) -> Strip:
        row = self._rows[number]
        here = number == self._cursor and (self._lone or self.has_focus)
        marked = self._marked is not None and self._key(row) in self._marked
        plain += self._style(Role.MARKED) if marked else Style.null()
        cursor = self._style(Role.CURSOR) if here else Style.null()
        base = plain + cursor
        signs = f"{'>' if here else ' '}{'*' if marked else ' '}"
        segments = [Segment(signs[: self._signs], base)]
        for column, wide in self._layout:
            cell = column.words(row)
            style = base if cell.role is None else self._under_cursor(plain, cell.role, cursor)
            text = fitted(inert(cell.text), wide, right=column.right, tail=column.tail)
            segments.append(Segment(text, style))
            segments.append(Segment(" " * GAP, base))
        return _line(segments, width, base)

    @property
    def _signs(self) -> int:
        """Characters before the first column: for the cursor, and for the mark."""
        return 1 if self._marked is None else 2

    def _under_cursor(self, plain: Style, role: Role, cursor: Style) -> Style:
        """*role* on the line of the *cursor*: dark text keeps the background made for it."""
        own = self._style(role)
        return plain + cursor + own if own.bgcolor is not None else plain + own + cursor

    def _style(self, role: Role) -> Style:
        return role_style(self.app, role)

    def _put(self, number: int) -> None:
        number = max(0, min(number, len(self._rows) - 1))
        if number == self._cursor:
            return
        before, self._cursor = self._cursor, number
        if not self._show_cursor():
            for changed in (before, number):
                self.refresh(Region(0, changed + 1 - self.scroll_offset.y, self.size.width, 1))
        self.post_message(self.Moved(self, self.current))

    def _show_cursor(self) -> bool:
        """Scroll so that the cursor can be seen; whether anything had to be scrolled."""
        height = self.size.height - 1
        top = self.scroll_offset.y
        if height <= 0:
            return False
        wanted = min(max(top, self._cursor - height + 1), self._cursor)
        if wanted == top:
            return False
        self.scroll_to(y=wanted, animate=False, immediate=True)
        self.refresh()
        return True

    @property
    def most_lines(self) -> int:
        """Lines that can be seen at once, when all the room that it may have is taken."""
        return self.container_size.height

    def _place_of(self, row: T | None) -> int:
        """Where *row* stands now; its old place if it is gone."""
        last = max(len(self._rows) - 1, 0)
        if row is None:
            return 0
        key, near = self._key(row), min(self._cursor, last)
        if self._rows and self._key(self._rows[near]) == key:
            return near
        same = self.find_same(row)
        found = self.find(key) if same is None else same
        return near if found is None else found

    def find_same(self, row: T | None) -> int | None:
        """Where the very same *row* stands; None: nowhere. Looks at no row's key."""
        try:
            return indexOf(map(is_, self._rows, repeat(row)), True)
        except ValueError:
            return None

    def _measure(self) -> dict[str, int]:
        step = max(len(self._rows) // SAMPLE, 1)
        sample = [self._rows[place] for place in range(0, len(self._rows), step)]
        return needed_widths(self._columns, sample)

    def _arrange(self) -> None:
        self._layout = arranged(self._columns, self._needed, self.size.width - self._signs)


def _line(segments: list[Segment], width: int, style: Style | None = None) -> Strip:
    return Strip(segments).adjust_cell_length(width, style)
