"""Two streams of records side by side, or below each other where it is narrow, line by line.

Both sides are on the same lines, so they scroll together. The sign in front says how they compare;
colours only repeat it. It holds a window and asks for more when the cursor comes near its end.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from typing_extensions import override

from screens.diff.pieces import Manner
from screens.diff.rows import Mark, Row, rows_of
from screens.diff.sheet import STACKED_BELOW, Sheet, Titles
from screens.screenshot import RECORDS
from services.divergence.align import Pair
from services.divergence.window import Window
from services.words.inert import inert
from themes.roles import Role, role_style

NEAR_EDGE = 12
"""Lines from the end of what is held at which more is asked for."""
LEAST_OFFSET = 6


class PairList(ScrollView, can_focus=True, inherit_bindings=False):
    """The pairs of a window, with a cursor on one of them."""

    DEFAULT_CSS = """
    PairList {
        height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("enter", "choose", "Record", tooltip="Both records whole, field by field"),
    ]

    class EdgeNear(Message):
        """The cursor has come near the end of what is held, or has reached it."""

        def __init__(self, *, top: bool) -> None:
            super().__init__()
            self.top = top

    class Moved(Message):
        """The operator has put the cursor on another pair."""

    class Chosen(Message):
        """Enter on a pair."""

        def __init__(self, pair: Pair) -> None:
            super().__init__()
            self.pair = pair

    def __init__(self, id: str | None = None, *, single: bool = False) -> None:
        """*single*: one stream by itself."""
        super().__init__(id=id, classes=RECORDS)
        self._single = single
        self._marked: frozenset[int] = frozenset()
        self._window = Window()
        self._marks: tuple[Mark, ...] = ()
        self._titles = Titles()
        self._rows: list[Row] = []
        self._place = 0
        self._gone_to = False
        """The cursor was put somewhere and not moved since: it stays a third down."""
        self._manner = Manner()
        self._empty = ""
        self._held: Sheet | None = None
        """While lines are drawn: how."""

    @property
    def window(self) -> Window:
        return self._window

    @property
    def current(self) -> Pair | None:
        """The pair under the cursor."""
        pairs = self._window.pairs
        return pairs[self._place] if self._place < len(pairs) else None

    @property
    def stacked(self) -> bool:
        """The sides stand below each other."""
        return self._single or self.size.width < STACKED_BELOW

    @property
    def marked(self) -> frozenset[int]:
        """The offsets that are marked."""
        return self._marked

    def set_marked(self, marked: frozenset[int]) -> None:
        """Mark the records at these offsets, and no others."""
        self._marked = marked
        self.refresh()

    @property
    def manner(self) -> Manner:
        return self._manner

    def set_sides(self, titles: Titles, marks: tuple[Mark, ...]) -> None:
        """Name the sides in the header, and mark some offsets."""
        self._titles, self._marks = titles, marks
        self._lay_out()

    def set_window(self, window: Window, goal: int | None = None, empty: str = "") -> None:
        """Show *window*; the cursor goes to the offset *goal*, or stays on its record."""
        before, seen_at = self.current, self._cursor_line() - self.scroll_offset.y
        self._window, self._empty = window, empty
        offset = goal if goal is not None or before is None else before.offset
        self._place = window.place_of(offset) if offset is not None else 0
        self._lay_out()
        self._gone_to = goal is not None
        if self._gone_to:
            self._scroll_to_third()
        else:
            self._scroll_line(self._cursor_line() - seen_at)
        self._show_cursor()

    def next_run(self) -> int | None:
        """The offset behind the cursor where a run of differences begins, if that is held."""
        place = self._window.next_run(self._place)
        return None if place is None else self._window.pairs[place].offset

    def previous_run(self) -> int | None:
        """The same before the cursor."""
        place = self._window.previous_run(self._place)
        return None if place is None else self._window.pairs[place].offset

    def look_for_more(self) -> None:
        """Ask for more where the cursor is near the end of what is held."""
        if self._place < NEAR_EDGE:
            self.post_message(self.EdgeNear(top=True))
        if self._place >= len(self._window.pairs) - NEAR_EDGE:
            self.post_message(self.EdgeNear(top=False))

    def set_manner(self, manner: Manner) -> None:
        """Write records in another way."""
        self._manner = manner
        self.refresh()

    def redact(self, hide: bool) -> None:
        """Draw lengths in place of what records hold."""
        self.set_manner(replace(self._manner, redacted=hide))

    def action_move(self, by: int) -> None:
        self._put(self._place + by)

    def action_page(self, by: int) -> None:
        lines = max(self.size.height - 2, 1)
        target = max(0, min(self._cursor_line() + by * lines, len(self._rows) - 1))
        place = self._rows[target].place if self._rows else 0
        self._put(place if place != self._place else place + by)

    def action_choose(self) -> None:
        if self.current is not None:
            self.post_message(self.Chosen(self.current))

    def on_click(self, event: Click) -> None:
        line = event.y - 1 + self.scroll_offset.y
        if event.y > 0 and line < len(self._rows):
            self._put(self._rows[line].place)

    def on_resize(self, _: Resize) -> None:
        self._lay_out()
        if self._gone_to:
            self._scroll_to_third()
        self._show_cursor()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    @override
    def render_lines(self, crop: Region) -> list[Strip]:
        """With one sheet for all of them: what the stylesheet says is dear to ask for."""
        self._held = self._sheet()
        try:
            return super().render_lines(crop)
        finally:
            self._held = None

    def render_line(self, y: int) -> Strip:
        """The header stays; below it are the lines that are scrolled to."""
        sheet = self._held or self._sheet()
        if y == 0:
            return sheet.header(self._titles)
        number = y - 1 + self.scroll_offset.y
        if not self._rows and y == 1:
            style = sheet.plain + sheet.styles(Role.MUTED)
            line = Strip([Segment(f" {inert(self._empty)}", style)])
            return line.adjust_cell_length(sheet.width, style)
        if number >= len(self._rows):
            return Strip.blank(sheet.width, sheet.plain)
        row = self._rows[number]
        if row.mark is not None:
            return sheet.mark(row.mark)
        assert row.pair is not None
        return sheet.pair(row, row.pair, here=row.place == self._place)

    def _sheet(self) -> Sheet:
        return Sheet(
            self.size.width,
            max(LEAST_OFFSET, len(str(self._window.end))),
            self.rich_style,
            partial(role_style, self.app),
            self._manner,
            self._single,
            self._marked,
        )

    def _put(self, place: int) -> None:
        self._place = max(0, min(place, len(self._window.pairs) - 1))
        self._gone_to = False
        self._show_cursor()
        self.refresh()
        self.post_message(self.Moved())
        self.look_for_more()

    def _lay_out(self) -> None:
        self._rows = rows_of(
            self._window.pairs,
            self._marks,
            self._window.end,
            stacked=self.stacked and not self._single,
        )
        self.virtual_size = Size(self.size.width, len(self._rows) + 1)
        self.refresh()

    def _cursor_line(self) -> int:
        """The first line of the pair under the cursor."""
        lines = (
            number
            for number, row in enumerate(self._rows)
            if row.place == self._place and row.pair is not None
        )
        return next(lines, 0)

    def _scroll_to_third(self) -> None:
        self._scroll_line(self._cursor_line() - max(self.size.height // 3, 1))

    def _scroll_line(self, line: int) -> None:
        self.scroll_to(y=max(line, 0), animate=False, immediate=True, force=True)

    def _show_cursor(self) -> None:
        """Scroll so that all lines of the cursor can be seen."""
        height = self.size.height - 1
        if height <= 0 or not self._rows:
            return
        first = self._cursor_line()
        last = first
        while last + 1 < len(self._rows) and self._rows[last + 1].place == self._place:
            last += 1
        top = self.scroll_offset.y
        wanted = min(max(top, last - height + 1), first)
        if first <= 1:
            wanted = 0
        if wanted != top:
            self._scroll_line(wanted)
