"""Two streams of records side by side, or below each other where it is narrow, line by line.

Both sides are on the same lines, so they scroll together. The sign in front says how they compare;
colours only repeat it. The list has a window of them and asks for more before the cursor
reaches its end; the bar on the right shows where in the whole range the window is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from typing_extensions import override

from breakglass.screens.diff.lines import (
    STACKED_BELOW,
    DiffRow,
    Manner,
    OffsetMark,
    Sheet,
    Titles,
    rows_of,
)
from breakglass.screens.screenshot import RECORDS
from breakglass.services.divergence.align import RecordPair, Window
from breakglass.services.divergence.source import Extent
from breakglass.services.words.inert import inert
from breakglass.themes.roles import Role, theme_role_style

PAGES_AHEAD = 2
"""More is asked for when fewer pages than this remain in the direction of the cursor."""
WHEEL_STEP = 3
LEAST_OFFSET = 6
BAR = "▐"
"""Stands beside the lines where the shown part of the range is."""


class PairList(Widget, can_focus=True, inherit_bindings=False):
    """The pairs of a window, with a cursor on one of them."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    PairList { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("enter", "choose", "Record", tooltip="Show both records in full, field by field"),
    ]

    class EdgeNear(Message):
        """The cursor has come near the end of the window, or has reached it."""

        def __init__(self, *, top: bool) -> None:
            super().__init__()
            self.top = top

    class Chosen(Message):
        """Enter on a pair."""

        def __init__(self, pair: RecordPair) -> None:
            super().__init__()
            self.pair = pair

    def __init__(self, moved: Callable[[], None], *, single: bool = False) -> None:
        """*moved* is called when the operator has put the cursor somewhere.

        At once, where a message would be painted a frame later. *single*: one stream by itself.
        """
        super().__init__(classes=RECORDS)
        self._moved = moved
        self._single = single
        self._marked: frozenset[int] = frozenset()
        self._window = Window()
        self._extent = Extent(0, 0)
        self._marks: tuple[OffsetMark, ...] = ()
        self._titles = Titles()
        self._rows: list[DiffRow] = []
        self._place = 0
        self._top = 0
        """The row that is shown first."""
        self._gone_to = False
        """The cursor was put somewhere and not moved since: it stays a third down."""
        self._manner = Manner()
        self._empty = self._theme = ""
        self._held: tuple[Sheet, Extent] | None = None
        """While lines are drawn: how, and where the bar is."""

    @property
    def window(self) -> Window:
        return self._window

    @property
    def current(self) -> RecordPair | None:
        pairs = self._window.pairs
        return pairs[self._place] if self._place < len(pairs) else None

    @property
    def stacked(self) -> bool:
        return self._single or self._width < STACKED_BELOW

    @property
    def marked(self) -> frozenset[int]:
        return self._marked

    def set_marked(self, marked: frozenset[int]) -> None:
        self._marked = marked
        self.refresh()

    @property
    def manner(self) -> Manner:
        return self._manner

    def set_sides(self, titles: Titles, marks: tuple[OffsetMark, ...]) -> None:
        self._titles, self._marks = titles, marks
        self._lay_out()
        self.refresh()

    def set_extent(self, extent: Extent) -> None:
        if extent != self._extent:
            self._extent = extent
            self.refresh()

    def set_window(self, window: Window, goal: int | None = None, empty: str = "") -> None:
        """Show *window*; the cursor goes to the offset *goal*, or stays on its record."""
        before, seen, seen_at = self.current, self._seen, self._cursor_line() - self._top
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
        if self._gone_to or not seen or self._seen != seen:
            self.refresh()

    def next_run(self) -> int | None:
        """The offset after the cursor where a run of differences begins, if the window has it."""
        place = self._window.next_run(self._place)
        return None if place is None else self._window.pairs[place].offset

    def previous_run(self) -> int | None:
        place = self._window.previous_run(self._place)
        return None if place is None else self._window.pairs[place].offset

    def look_for_more(self, *, above: bool = True, below: bool = True) -> None:
        """Ask for more where little is left on that side of the cursor."""
        ahead = PAGES_AHEAD * max(self.size.height, 1)
        if above and self._place < ahead:
            self.post_message(self.EdgeNear(top=True))
        if below and self._place >= len(self._window.pairs) - ahead:
            self.post_message(self.EdgeNear(top=False))

    def set_manner(self, manner: Manner) -> None:
        self._manner = manner
        self.refresh()

    def redact(self, hide: bool) -> None:
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
        line = event.y - 1 + self._top
        if event.y > 0 and line < len(self._rows):
            self._put(self._rows[line].place)

    def on_mouse_scroll_down(self, _: MouseScrollDown) -> None:
        self.action_move(WHEEL_STEP)

    def on_mouse_scroll_up(self, _: MouseScrollUp) -> None:
        self.action_move(-WHEEL_STEP)

    def on_resize(self, _: Resize) -> None:
        self._lay_out()
        if self._gone_to:
            self._scroll_to_third()
        self._show_cursor()
        self.refresh()

    def notify_style_update(self) -> None:
        """Roles look as the theme says; the focus changes nothing."""
        super().notify_style_update()
        if self.app.theme != self._theme:
            self._theme = self.app.theme
            self.refresh()

    @override
    def render_lines(self, crop: Region) -> list[Strip]:
        """With one sheet for all of them: asking the stylesheet is slow."""
        self._held = self._sheet(), self._bar()
        try:
            return super().render_lines(crop)
        finally:
            self._held = None

    def render_line(self, y: int) -> Strip:
        """The header stays; below it are the lines that are scrolled to."""
        sheet, bar = self._held or (self._sheet(), self._bar())
        beside = Segment(BAR if bar.start < y <= bar.end else " ", sheet.bar)
        return Strip([*self._line(y, sheet), beside], sheet.width + 1)

    def _line(self, y: int, sheet: Sheet) -> Strip:
        if y == 0:
            return sheet.header(self._titles)
        number = y - 1 + self._top
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
        last = max(self._window.end, self._extent.end)
        return Sheet(
            self._width,
            max(LEAST_OFFSET, len(str(last))),
            self.rich_style,
            partial(theme_role_style, self.app.current_theme),
            self._manner,
            self._single,
            self._marked,
        )

    @property
    def _width(self) -> int:
        return max(self.size.width - 1, 0)

    @property
    def _height(self) -> int:
        return self.size.height - 1

    @property
    def _seen(self) -> Sequence[tuple[RecordPair | None, OffsetMark | None]]:
        rows = self._rows[self._top : self._top + max(self._height, 0)]
        return [(row.pair, row.mark) for row in rows]

    def _bar(self) -> Extent:
        """Which lines the bar stands beside; none where everything is to be seen."""
        shown = self._rows[self._top : self._top + max(self._height, 0)]
        size = self._extent.end - self._extent.start
        if not shown or size <= 0 or not self._window.pairs:
            return Extent(0, 0)
        first, last = (self._window.pairs[row.place] for row in (shown[0], shown[-1]))
        begin, end = first.offset - self._extent.start, last.end - self._extent.start
        if begin <= 0 and end >= size:
            return Extent(0, 0)
        start = min(begin * self._height // size, self._height - 1)
        return Extent(start, max(start + 1, -(-end * self._height // size)))

    def _put(self, place: int) -> None:
        before = self._place
        self._place = max(0, min(place, len(self._window.pairs) - 1))
        self._gone_to = False
        if self._show_cursor():
            self.refresh()
        elif self._place != before:
            self.refresh(*map(self._region, (before, self._place)))
        self._moved()
        self.look_for_more(above=place <= before, below=place >= before)

    def _lay_out(self) -> None:
        self._rows = rows_of(
            self._window.pairs,
            self._marks,
            self._window.end,
            stacked=self.stacked and not self._single,
        )

    def _lines_of(self, place: int) -> Extent:
        rows = self._rows
        start = bisect_left(rows, place, key=lambda row: row.place)
        while start < len(rows) and rows[start].pair is None and rows[start].place == place:
            start += 1
        end = start
        while end < len(rows) and rows[end].pair is not None and rows[end].place == place:
            end += 1
        return Extent(start, end)

    def _region(self, place: int) -> Region:
        lines = self._lines_of(place)
        return Region(0, lines.start - self._top + 1, self.size.width, lines.end - lines.start)

    def _cursor_line(self) -> int:
        lines = self._lines_of(self._place)
        return lines.start if lines.start < lines.end else 0

    def _scroll_to_third(self) -> None:
        self._scroll_line(self._cursor_line() - max(self.size.height // 3, 1))

    def _scroll_line(self, line: int) -> None:
        self._top = max(0, min(line, len(self._rows) - self._height))

    def _show_cursor(self) -> bool:
        """Scroll so that all lines of the cursor can be seen; whether anything had to be."""
        if self._height <= 0 or not self._rows:
            return False
        lines, top = self._lines_of(self._place), self._top
        wanted = min(max(top, lines.end - self._height), lines.start)
        if lines.start <= 1:
            wanted = 0
        self._scroll_line(wanted)
        return self._top != top
