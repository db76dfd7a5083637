"""The lines of one record, side by side or below each other, folded to the width there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from breakglass.screens.diff.drawing import segments_of
from breakglass.screens.diff.record_lines import RecordLine, Writing, folded, record_lines
from breakglass.screens.screenshot import RECORDS
from breakglass.services.divergence.align import RecordPair
from breakglass.services.divergence.text import Span, differences
from breakglass.services.words.record_text import TextForm, TextLimits
from breakglass.themes.roles import Role, role_style

STACKED_BELOW = 100
"""Columns under which the sides stand below each other."""
NAME_WIDTH = 9
WHOLE_HEX_WIDTH = 78
"""Columns that sixteen bytes in hex take."""
BETWEEN = " │ "


class Drawn(NamedTuple):
    """One line of the screen: which line of the record it is a part of."""

    line: RecordLine
    first: bool
    """Carries the sign and the name."""
    left: Span | None
    """Characters of the left text that stand here; None where nothing of it does."""
    right: Span | None


class RecordView(ScrollView, can_focus=True, inherit_bindings=False):
    """A record of two replicas; scrolls."""

    DEFAULT_CSS = """
    RecordView {
        height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "jump(False)", "Top", show=False),
        Binding("end", "jump(True)", "Bottom", show=False),
    ]

    def __init__(self, id: str | None = None, *, single: bool = False) -> None:
        """*single*: a record by itself."""
        super().__init__(id=id, classes=RECORDS)
        self._single = single
        self._folded: int | None = None
        self._pair: RecordPair | None = None
        self._form = TextForm.TEXT
        self._redacted = False
        self._lines: list[RecordLine] = []
        self._drawn: list[Drawn] = []

    def show(self, pair: RecordPair | None, form: TextForm) -> None:
        """Show the records of *pair* as *form*."""
        self._pair, self._form = pair, form
        self._write()

    def fold(self, depth: int | None) -> None:
        """Show no more than so many levels of what is nested; None: all of them."""
        self._folded = depth
        self._write()

    def redact(self, hide: bool) -> None:
        """Draw lengths in place of what the records hold."""
        self._redacted = hide
        self._write()

    @property
    def stacked(self) -> bool:
        """The sides stand below each other."""
        return self._single or self.size.width < STACKED_BELOW

    def action_move(self, by: int) -> None:
        self._show_from(self.scroll_offset.y + by)

    def action_page(self, by: int) -> None:
        self._show_from(self.scroll_offset.y + by * max(self.size.height - 1, 1))

    def action_jump(self, bottom: bool) -> None:
        self._show_from(len(self._drawn) if bottom else 0)

    def _show_from(self, line: int) -> None:
        """At once: each step of an animation is a screen sent over a slow link."""
        self.scroll_to(y=line, animate=False, immediate=True)

    def on_resize(self, _: Resize) -> None:
        self._write()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number, width, base = y + self.scroll_offset.y, self.size.width, self.rich_style
        if number >= len(self._drawn):
            return Strip.blank(width, base)
        drawn = self._drawn[number]
        parts = [self._head(drawn, base)]
        if not self.stacked:
            parts += [self._part(drawn, base, left=True), Strip([Segment(BETWEEN, base)])]
        parts.append(self._part(drawn, base, left=self.stacked and drawn.left is not None))
        return Strip.join(parts).adjust_cell_length(width, base)

    def _head(self, drawn: Drawn, base: Style) -> Strip:
        name = drawn.line.name if drawn.first else ""
        sign = "" if self._single else drawn.line.sign
        if self.stacked and sign == "!":
            sign = "!<" if drawn.left is not None else "!>"
            name = name if drawn.left is not None else ""
        style = base + role_style(self.app, Role.MUTED if sign == "=" else Role.DIVERGED)
        heading = base + role_style(self.app, Role.HEADING)
        return Strip([Segment(f" {sign:2} ", style), Segment(f"{name:{NAME_WIDTH}} ", heading)])

    def _part(self, drawn: Drawn, base: Style, *, left: bool) -> Strip:
        width = self._text_width()
        line, span = drawn.line, drawn.left if left else drawn.right
        text = line.left if left else line.right
        if text is None or span is None:
            return Strip.blank(width, base)
        start, end = span
        spans = _clipped(_spans(line.left, line.right)[0 if left else 1], start, end)
        different = base + role_style(self.app, Role.DIFFERENT)
        strip = Strip(segments_of(text[start:end], spans, base, different))
        return strip.adjust_cell_length(width, base)

    def _text_width(self) -> int:
        room = self.size.width - NAME_WIDTH - 5
        return max(room if self.stacked else (room - len(BETWEEN)) // 2, 1)

    def _write(self) -> None:
        limits = TextLimits(hex_bytes=16 if self._text_width() >= WHOLE_HEX_WIDTH else 8)
        writing = Writing(self._form, limits, self._redacted)
        lines = [] if self._pair is None else record_lines(self._pair, writing)
        self._lines = lines if self._folded is None else folded(lines, self._folded)
        self._fold()

    def _fold(self) -> None:
        width = self._text_width()
        fold = _stacked if self.stacked else _side_by_side
        self._drawn = [drawn for line in self._lines for drawn in fold(line, width)]
        self.virtual_size = Size(self.size.width, len(self._drawn))
        self.refresh()


def _side_by_side(line: RecordLine, width: int) -> Iterator[Drawn]:
    ours, theirs = _folds(line.left, width), _folds(line.right, width)
    for number in range(max(len(ours), len(theirs))):
        yield Drawn(
            line,
            number == 0,
            ours[number] if number < len(ours) else None,
            theirs[number] if number < len(theirs) else None,
        )


def _stacked(line: RecordLine, width: int) -> Iterator[Drawn]:
    """The left text above the right one; a text that both have once."""
    for number, span in enumerate(_folds(line.left, width)):
        yield Drawn(line, number == 0, span, None)
    if line.sign == "=":
        return
    for number, span in enumerate(_folds(line.right, width)):
        yield Drawn(line, number == 0, None, span)


def _folds(text: str | None, width: int) -> Sequence[Span]:
    """*text* cut into stretches of *width* cells."""
    if text is None:
        return ()
    if text.isascii():
        return [(at, min(at + width, len(text))) for at in range(0, max(len(text), 1), width)]
    return list(_wide_folds(text, width))


def _wide_folds(text: str, width: int) -> Iterator[Span]:
    start = cells = 0
    for place, character in enumerate(text):
        size = cell_len(character)
        if cells + size > width and place > start:
            yield start, place
            start, cells = place, 0
        cells += size
    yield start, len(text)


def _clipped(spans: Sequence[Span], start: int, end: int) -> Iterator[Span]:
    """*spans* within ``[start, end)``, counted from there."""
    for a, b in spans:
        if a < end and start < b:
            yield max(a, start) - start, min(b, end) - start


@lru_cache(1024)
def _spans(left: str | None, right: str | None) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """What differs in two lines; all of a line that stands alone is said by its sign."""
    if left is None or right is None or left == right:
        return (), ()
    return differences(left, right)
