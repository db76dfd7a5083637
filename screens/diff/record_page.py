"""One record of one side or both: what was listed at once, all of it as soon as it is read.

Its lines are side by side or below each other, folded to the width there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.diff.lines import clock_text, marker_text, segments_of
from breakglass.screens.diff.paged import Task, TaskPage
from breakglass.screens.screenshot import RECORDS
from breakglass.services.browse.query import RecordQuery
from breakglass.services.divergence.align import Comparison, PairKind, RecordPair
from breakglass.services.divergence.entry import (
    DETAIL,
    NO_PRODUCER,
    Content,
    Item,
    RecordEntry,
    Span,
    UnreadableRange,
    differences,
    lines_beside,
)
from breakglass.services.errors import BreakglassError
from breakglass.services.record_batches import TimestampType
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.services.words.record_text import ALL, INDENT, TextForm, TextLimits, preview, shown
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from breakglass.screens.diff.paged import PagedPairs

BEHIND = "(what differs is not shown)"
HEADER_LENGTH = 400
"""Characters of a header's key, and of its value."""
TYPES = {TimestampType.CREATE: "set by the producer", TimestampType.LOG_APPEND: "set on append"}


class RecordLine(NamedTuple):
    """A line of a field, as either side has it; None where a side has no such line."""

    sign: str
    """``=``, ``!``, ``<``, ``>``, ``?``, or a space: differs, and that says nothing."""
    name: str
    """Of the field, on its first line."""
    left: str | None
    right: str | None


class Writing(NamedTuple):
    """How a record is written."""

    form: TextForm = TextForm.TEXT
    limits: TextLimits = ALL
    redacted: bool = False
    """Only the lengths of what it holds."""


def record_lines(pair: RecordPair, writing: Writing) -> list[RecordLine]:
    """The lines of *pair*: what a side does not have or could not read is said on the first."""
    lines = [_absence(pair)] if None in (pair.left, pair.right) or _unread(pair) else []
    for name, left, right in _fields(pair, writing):
        field = [_judged(line, name, pair) for line in _beside(name, left, right, pair)]
        lines += field
        if name in pair.fields and all(line.sign == "=" for line in field):
            lines.append(RecordLine("!", "", BEHIND, BEHIND))
    return lines


def folded(lines: Sequence[RecordLine], depth: int) -> list[RecordLine]:
    """*lines* without those that stand deeper than *depth* levels; how many is said in their place.

    A fold that hides a difference has the sign of one.
    """
    shown: list[RecordLine] = []
    hidden: list[RecordLine] = []
    for line in lines:
        if not line.name and _level(line) > depth:
            hidden.append(line)
            continue
        shown += _fold(hidden, depth)
        hidden = []
        shown.append(line)
    return [*shown, *_fold(hidden, depth)]


def _level(line: RecordLine) -> int:
    text = line.left if line.left is not None else line.right or ""
    return (len(text) - len(text.lstrip(" "))) // len(INDENT)


def _fold(hidden: Sequence[RecordLine], depth: int) -> Iterator[RecordLine]:
    if not hidden:
        return
    signs = {line.sign for line in hidden} - {"=", " "}
    text = f"{INDENT * (depth + 1)}... {len(hidden):,} lines"
    left = text if any(line.left is not None for line in hidden) else None
    right = text if any(line.right is not None for line in hidden) else None
    yield RecordLine(min(signs, default="="), "", left, right)


def _judged(line: RecordLine, name: str, pair: RecordPair) -> RecordLine:
    """*line* without a sign where a difference in it is no difference of the records."""
    compared = pair.kind is PairKind.EQUAL or pair.kind is PairKind.DIFFERENT
    if compared and line.sign != "=" and name not in pair.fields:
        return line._replace(sign=" ")
    return line


def _unread(pair: RecordPair) -> bool:
    return isinstance(pair.left, UnreadableRange) or isinstance(pair.right, UnreadableRange)


def _absence(pair: RecordPair) -> RecordLine:
    sides = (_why_absent(pair.left), _why_absent(pair.right))
    return RecordLine(pair.kind.value, "", *sides)


def _why_absent(item: Item | None) -> str:
    if isinstance(item, UnreadableRange):
        return bounded(f"{item.start:,} to {item.end:,} cannot be read: {item.reason}", 900)
    return "no record at this offset" if item is None else ""


Lines = Sequence[str] | None
"""None: the side has no record."""


def _fields(pair: RecordPair, writing: Writing) -> Iterator[tuple[str, Lines, Lines]]:
    left = pair.left if isinstance(pair.left, RecordEntry) else None
    right = pair.right if isinstance(pair.right, RecordEntry) else None
    ours, theirs = ({} if side is None else _lines(side, writing) for side in (left, right))
    for name in {**ours, **theirs}:
        yield name, ours.get(name), theirs.get(name)


def _lines(entry: RecordEntry, writing: Writing) -> dict[str, Sequence[str]]:
    told: dict[str, Sequence[str]] = {
        "epoch": ["not kept" if entry.epoch is None else str(entry.epoch)],
        "timestamp": [_time(entry.timestamp)],
        "type": [TYPES.get(entry.timestamp_type, "none")],
    }
    if entry.producer_id != NO_PRODUCER or entry.transactional:
        transactional = ", transactional" if entry.transactional else ""
        told["producer"] = [f"{entry.producer_id}{transactional}"]
    if entry.marker is not None:
        told["marker"] = [marker_text(entry.marker)]
    headers = entry.headers
    more = headers.count - len(headers.kept)
    lines = [f"{headers.count:,}{f'; the first {len(headers.kept):,} are shown' if more else ''}"]
    if not writing.redacted:
        lines += [_header(key, value, writing.form) for key, value in headers.kept]
    return {
        **told,
        "key": _content(entry.key, writing),
        "headers": lines,
        "value": _content(entry.value, writing),
    }


def _time(timestamp: int | None) -> str:
    if timestamp is None or clock_text(timestamp) == "?":
        return "-" if timestamp is None else f"{timestamp} ms"
    return f"{time_text(timestamp)} ({timestamp} ms)"


def _content(content: Content | None, writing: Writing) -> Sequence[str]:
    if content is None:
        return ["null"]
    size = f"{content.size:,} byte{'s' * (content.size != 1)}"
    if writing.redacted:
        return [size]
    told = shown(content.kept, content.size, writing.form, writing.limits)
    return [f"{size}{told.note and f'; {told.note}'}", *told.lines]


def _header(key: Content, value: Content | None, form: TextForm) -> str:
    name = preview(key.kept, key.size, TextForm.TEXT, HEADER_LENGTH)
    kept, size = (None, 0) if value is None else (value.kept, value.size)
    return f"{name}: {preview(kept, size, form, HEADER_LENGTH)}"


def _beside(name: str, left: Lines, right: Lines, pair: RecordPair) -> Iterator[RecordLine]:
    """The lines of one field; the first carries its name."""
    signed: Iterable[tuple[str, str | None, str | None]]
    if left is None or right is None:
        sign = pair.kind.value if _unread(pair) else "<" if right is None else ">"
        signed = ((sign, one, other) for one, other in zip_longest(left or (), right or ()))
    else:
        signed = ((_sign(*both), *both) for both in lines_beside(left, right))
    for number, (sign, one, other) in enumerate(signed):
        yield RecordLine(sign, "" if number else name, one, other)


def _sign(left: str | None, right: str | None) -> str:
    if left is None or right is None:
        return ">" if left is None else "<"
    return "=" if left == right else "!"


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

    def __init__(self, query: RecordQuery | None = None, *, single: bool = False) -> None:
        """*single*: a record by itself. The finds of the *query* are marked, the first is shown."""
        super().__init__(classes=RECORDS)
        self._single, self._query = single, query
        self._fields: dict[int, str] = {}
        """By the id of a line: the field that it is of."""
        self._folded: int | None = None
        self._pair: RecordPair | None = None
        self._form = TextForm.TEXT
        self._redacted = False
        self._lines: list[RecordLine] = []
        self._drawn: list[Drawn] = []

    def show(self, pair: RecordPair | None, form: TextForm) -> None:
        self._pair, self._form = pair, form
        self._write()
        found = (
            number
            for number, drawn in enumerate(self._drawn)
            if any(_clipped(self._finds(drawn.line, drawn.line.left), *(drawn.left or (0, 0))))
            or any(_clipped(self._finds(drawn.line, drawn.line.right), *(drawn.right or (0, 0))))
        )
        if (first := next(found, None)) is not None:
            self._show_from(max(first - self.size.height // 3, 0))

    def fold(self, depth: int | None) -> None:
        """Show no more than so many levels of what is nested; None: all of them."""
        self._folded = depth
        self._write()

    def redact(self, hide: bool) -> None:
        self._redacted = hide
        self._write()

    @property
    def stacked(self) -> bool:
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
        name = drawn.line.name if drawn.first else ""
        sign = "" if self._single else drawn.line.sign
        if self.stacked and sign == "!":
            sign = "!<" if drawn.left is not None else "!>"
            name = name if drawn.left is not None else ""
        style = base + role_style(self.app, Role.MUTED if sign == "=" else Role.DIVERGED)
        heading = base + role_style(self.app, Role.HEADING)
        parts = [Strip([Segment(f" {sign:2} ", style), Segment(f"{name:{NAME_WIDTH}} ", heading)])]
        if not self.stacked:
            parts += [self._part(drawn, base, left=True), Strip([Segment(BETWEEN, base)])]
        parts.append(self._part(drawn, base, left=self.stacked and drawn.left is not None))
        return Strip.join(parts).adjust_cell_length(width, base)

    def _part(self, drawn: Drawn, base: Style, *, left: bool) -> Strip:
        width = self._text_width()
        line, span = drawn.line, drawn.left if left else drawn.right
        text = line.left if left else line.right
        if text is None or span is None:
            return Strip.blank(width, base)
        start, end = span
        marked = _spans(line.left, line.right)[0 if left else 1] or self._finds(line, text)
        spans = _clipped(marked, start, end)
        different = base + role_style(self.app, Role.DIFFERENT)
        strip = Strip(segments_of(text[start:end], spans, base, different))
        return strip.adjust_cell_length(width, base)

    def _finds(self, line: RecordLine, text: str | None) -> Sequence[Span]:
        if self._query is None or text is None or line.name or self._redacted:
            return ()
        return self._query.spans(self._fields.get(id(line), ""), text)

    def _text_width(self) -> int:
        room = self.size.width - NAME_WIDTH - 5
        return max(room if self.stacked else (room - len(BETWEEN)) // 2, 1)

    def _write(self) -> None:
        limits = TextLimits(hex_bytes=16 if self._text_width() >= WHOLE_HEX_WIDTH else 8)
        writing = Writing(self._form, limits, self._redacted)
        lines = [] if self._pair is None else record_lines(self._pair, writing)
        self._lines = lines if self._folded is None else folded(lines, self._folded)
        self._fields.clear()
        field = ""
        for line in self._lines:
            self._fields[id(line)] = field = line.name or field
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


REASON_LENGTH = 400
FOLDS: tuple[int | None, ...] = (None, 1, 2, 3)
"""How many levels of JSON are shown, in turn."""


FOLD = Binding("z", "fold", "fold", tooltip="Show all levels of JSON, or the first 1, 2 or 3")
"""For the subclasses, whose page offers it."""


class RecordScreen(TaskPage):
    """Every field of a record of *listed*, which is whose list it was opened from."""

    TITLE = "Record"
    GONE = "This record no longer exists: press Esc, then ctrl+r."
    CSS = """
    #record-heading { max-height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "back", "Back", tooltip="Stop reading; when nothing is read, back to the list"
        ),
        Binding("v", "form", "view", tooltip="As text, JSON or hex in turn"),
    ]

    def __init__(self, listed: PagedPairs[Any], pair: RecordPair) -> None:
        super().__init__(listed.context)
        self._listed, self._pair, self._form = listed, pair, listed.manner.form
        self._query = listed.manner.query
        """What was searched for when the record was opened."""
        self._depth = 0
        """Which of `FOLDS`."""
        self._decoded: RecordPair | None = None
        """With keys and values decoded by a schema; shown in place of the bytes."""
        self._note = ""
        """By which schema."""
        self._as_decoded = True
        self._awaited: Task | None = None
        self._said = ""

    @property
    def busy(self) -> bool:
        return self._awaited is not None

    def body(self) -> Iterator[Widget]:
        yield Static(id="record-heading", markup=False)
        yield RecordView(self._query, single=self._listed.single)

    def on_mount(self) -> None:
        self._draw()
        self.query_one(RecordView).focus()
        doing = f"Reading the record at offset {self._pair.offset:,}"
        self._awaited = self._listed.begin_task(Task(self, doing), self._read)
        self._draw_heading()

    def on_unmount(self) -> None:
        if self._awaited is not None:
            self._awaited.abandon()

    def on_resize(self) -> None:
        self._draw_heading()

    def action_back(self) -> None:
        if self._awaited is None:
            self.dismiss()
            return
        self._awaited.abandon()
        self._awaited = None
        self._said = "Stopped: only the beginning is shown."
        self._draw_heading()

    def action_form(self) -> None:
        """The next form; what a schema decoded comes before the others."""
        last = self._form is tuple(TextForm)[-1]
        if self._shows_decoded:
            self._as_decoded, self._form = False, TextForm.TEXT
        elif self._decoded is not None and last:
            self._as_decoded = True
        else:
            self._form = self._form.next
        self._draw()

    def action_fold(self) -> None:
        self._depth = (self._depth + 1) % len(FOLDS)
        if not self._shows_decoded:
            self._form = TextForm.JSON
        self._draw()

    def _read(self, comparison: Comparison, task: Task) -> None:
        """In a thread: the record as far as it is shown, decoded where there are schemas."""
        reading, offset = replace(task.reading, keep=DETAIL), self._pair.offset
        pair, schemas = (
            next(comparison.pairs(offset, offset + 1, reading), None),
            self._listed.schemas,
        )
        if schemas is None or pair is None:
            task.tell(self._show_record, pair, None, "")
        else:
            found = schemas.pair(pair, self._listed.topic)
            decoded = found.pair if found.any else None
            task.tell(self._show_record, pair, decoded, ", ".join(found.notes))

    def _show_record(self, pair: RecordPair | None, decoded: RecordPair | None, note: str) -> None:
        """Show *pair*; None: it is gone. The *note* says by which schemas, or why not."""
        self._note = note
        if pair is None:
            self._said = self.GONE
        else:
            self._pair, self._decoded = pair, decoded
        self._draw()

    def task_failed(self, task: Task, error: BreakglassError) -> None:
        if task is self._awaited:
            self._said = str(error)

    def task_ended(self, task: Task) -> None:
        if task is self._awaited:
            self._awaited = None
            self._draw_heading()

    @property
    def _shows_decoded(self) -> bool:
        return self._decoded is not None and self._as_decoded

    def _draw(self) -> None:
        view = self.query_one(RecordView)
        view.fold(FOLDS[self._depth])
        if self._decoded is not None and self._shows_decoded:
            view.show(self._decoded, TextForm.JSON)
        else:
            view.show(self._pair, self._form)
        self._draw_heading()

    def _draw_heading(self) -> None:
        depth = FOLDS[self._depth]
        folded = "" if depth is None else f", {depth} level{'s' * (depth != 1)}"
        form = bounded(self._note, REASON_LENGTH) if self._shows_decoded else str(self._form)
        text = self._listed.heading(self._pair, form + folded, self.size.width)
        if self._awaited is not None:
            doing = f"\n {self._awaited.doing}. Esc stops it."
            text.append(doing, role_style(self.app, Role.RUNNING))
        elif self._said or (self._note and self._decoded is None):
            said = bounded(self._said or self._note, REASON_LENGTH)
            text.append(f"\n {said}", role_style(self.app, Role.UNKNOWN))
        heading = self.query_one("#record-heading", Static)
        # Textual measures a height of its own choice once for all updates that wait for a layout.
        heading.styles.height = text.plain.count("\n") + 1
        heading.update(text)
