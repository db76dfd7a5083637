"""The records of one source, or of two side by side, read where the cursor goes.

The records of one source or two, and the widgets around the list of them.

The sentences of the screens of records: what is looked at, and what the cursor is on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input
from typing_extensions import override

from breakglass.screens.browse.reader import BrowseReader, RecordsExported
from breakglass.screens.browse.subject import BrowseSubject, connect_to
from breakglass.screens.context import Context
from breakglass.screens.diff.paged import SENTENCE_LENGTH, PagedPairs
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.diff.pieces import Manner
from breakglass.screens.diff.reader import (
    ComparisonCounted,
    ComparisonFailed,
    ComparisonRead,
    ComparisonSearched,
    ConnectAny,
    MapGrown,
    SourcesOpened,
    Task,
    TaskEnded,
)
from breakglass.screens.diff.record_page import FOLD, REASON_LENGTH, RecordPage
from breakglass.screens.diff.rows import fields_told
from breakglass.screens.diff.sheet import Titles, different_text
from breakglass.screens.messages import CopyAsked
from breakglass.screens.widgets.dialog import Prompt
from breakglass.screens.widgets.told import StyledLines
from breakglass.services.browse.query import HELP, RecordQuery, parse_query, parse_time
from breakglass.services.divergence.align import Cell, HunkTotals, Minimap, PairKind, RecordPair
from breakglass.services.divergence.entry import RecordEntry, UnreadableRange
from breakglass.services.divergence.pages import Window
from breakglass.services.divergence.source import Extent
from breakglass.services.errors import UsageError
from breakglass.services.words.inert import CUT, bounded, inert
from breakglass.services.words.moments import time_text
from breakglass.services.words.record_text import TextForm
from breakglass.themes.roles import Role, role_style

HEAD_LENGTH = 24
"""Of an address that does not fit: its kind, and a little of its place."""


def titles_of(subject: BrowseSubject) -> Titles:
    """What stands over the columns."""
    if subject.single:
        return Titles("epoch, time, key, value")
    one, other = subject.briefs
    return Titles(f"< {one}", f"> {other}", one, other)


def extent_text(extent: Extent | None) -> str:
    """``offsets 0 to 1,199``."""
    if extent is None:
        return "opening"
    if extent.start >= extent.end:
        return f"empty, the next offset is {extent.end:,}"
    return f"offsets {extent.start:,} to {extent.end - 1:,}"


def totals_text(subject: BrowseSubject, totals: HunkTotals | None) -> str:
    """What differs, by signs; how to count where nothing was."""
    if totals is None:
        return "Not counted yet: c counts."
    one, other = subject.briefs
    kinds = totals.kinds
    unread = f", ? {kinds[PairKind.UNREAD]:,} not read" if kinds[PairKind.UNREAD] else ""
    if not (kinds[PairKind.DIFFERENT] or kinds[PairKind.LEFT] or kinds[PairKind.RIGHT]):
        return f"No differences{unread}."
    return (
        f"{different_text(kinds[PairKind.DIFFERENT])}, < {kinds[PairKind.LEFT]:,} only in {one}, "
        f"> {kinds[PairKind.RIGHT]:,} only in {other}{unread}."
    )


def about(pair: RecordPair, subject: BrowseSubject, *, letters: bool = True) -> str:
    """What *pair* is, in words: ``offset 100: different in value (v)``."""
    one, other = subject.briefs
    for item, name in ((pair.left, one), (pair.right, other)):
        if isinstance(item, UnreadableRange):
            where = "" if subject.single else f" in {name}"
            return f"{_range(item)} cannot be read{where}: {item.reason}"
    if subject.single:
        return _alone(pair)
    if pair.kind is PairKind.DIFFERENT:
        return f"offset {pair.offset:,}: different in {fields_told(pair, letters=letters)}"
    only = one if pair.kind is PairKind.LEFT else other
    where = "the same in both" if pair.kind is PairKind.EQUAL else f"only in {only}"
    return f"offset {pair.offset:,}: {where}"


def _range(item: UnreadableRange) -> str:
    if item.end - item.start <= 1:
        return f"offset {item.start:,}"
    return f"offsets {item.start:,} to {item.end - 1:,}"


def _alone(pair: RecordPair) -> str:
    entry = pair.left
    if not isinstance(entry, RecordEntry):
        return ""
    headers = entry.headers.count
    size = "null" if entry.value is None else f"{entry.value.size:,} bytes"
    return (
        f"offset {entry.offset:,}, {time_text(entry.timestamp)}, value {size}, {headers:,} header"
        f"{'s' * (headers != 1)}"
    )


def names_of(subject: BrowseSubject, width: int) -> tuple[str, ...]:
    """The addresses in *width* columns, with the sign and the letter that stand for them."""
    left, right = subject.titles
    if subject.single:
        return (cropped(left, width),)
    one, other = subject.briefs
    return cropped(_named("<", one, left), width), cropped(_named(">", other, right), width)


def _named(sign: str, brief: str, address: str) -> str:
    """``< A backup:...``; what the address itself begins with is not said twice."""
    letter = f"{brief} " if len(brief) == 1 else ""
    return f"{sign} {letter}{address}"


def cropped(text: str, width: int) -> str:
    """The inert *text* in *width* characters: how it begins and, above all, how it ends."""
    shown = inert(text)
    if len(shown) <= width:
        return shown
    head = min(width // 3, HEAD_LENGTH)
    return shown[:head] + CUT + shown[len(shown) - max(width - head - len(CUT), 1) :]


QUERY_LENGTH = 60
NOTE_LENGTH = 400

Styles = Callable[[Role], Style]


@dataclass
class SubjectSummary:
    """What is known of a subject so far."""

    extent: Extent | None = None
    refused: bool = False
    """It could not be opened."""
    notes: tuple[str, ...] = ()
    totals: HunkTotals | None = None
    query: RecordQuery | None = None


def summary(
    subject: BrowseSubject,
    found: SubjectSummary,
    form: TextForm,
    marked: int,
    width: int,
    styles: Styles,
) -> Text:
    """The lines, *width* columns wide."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for name in names_of(subject, width - 2):
        text.append(f" {name}\n", styles(Role.HEADING))
    text.append(" not opened" if found.refused else f" {extent_text(found.extent)}, as {form}")
    if marked:
        text.append("  ").append(f"{marked:,} marked", styles(Role.MARKED))
    if found.query is not None:
        searched = bounded(found.query.text, QUERY_LENGTH)
        text.append("  ").append(f"search: {searched}", styles(Role.DIFFERENT))
    if not subject.single:
        told = totals_text(subject, found.totals)
        line = text.plain.rsplit("\n", 1)[-1]
        text.append(f"  {told}" if cell_len(line) + len(told) + 2 <= width else f"\n {told}")
    if found.notes:
        more = f" and {len(found.notes) - 1} more" if len(found.notes) > 1 else ""
        note = bounded(found.notes[0], NOTE_LENGTH)
        text.append(f"\n {note}{more}", styles(Role.UNKNOWN))
    return text


NOT_KNOWN = "·"
SIGNS: dict[Cell, str] = {None: NOT_KNOWN, PairKind.EQUAL: "─"}
"""How cells are drawn; the others by the sign of their kind."""


class MapLine(Widget):
    """From the first offset of both at the left to the last at the right."""

    DEFAULT_CSS = """
    MapLine { height: 1; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._map: Minimap | None = None
        self._offset = 0

    def show(self, cells: Minimap | None, offset: int) -> None:
        if cells is not self._map or offset != self._offset:
            self._map, self._offset = cells, offset
            self.refresh()

    def render(self) -> Text:
        width = max(self.size.width - 2, 1)
        text = Text(" ", no_wrap=True, end="")
        if self._map is None:
            return text
        here = min(int(self._map.share(self._offset) * width), width - 1)
        for place, cell in enumerate(self._map.drawn(width)):
            style = role_style(self.app, _role(cell))
            if place == here:
                style += role_style(self.app, Role.CURSOR)
            text.append(SIGNS.get(cell) or str(cell), style)
        return text


def _role(cell: Cell) -> Role:
    if cell is None or cell is PairKind.EQUAL:
        return Role.MUTED
    return Role.UNKNOWN if cell is PairKind.UNREAD else Role.DIVERGED


PATIENCE_SECONDS = 0.03
"""A screen that stands still for so long still seems to answer at once."""


class OneFrame:
    """Keeps a screen as it is from `begin` to `end`, or until its patience is over."""

    def __init__(self, screen: Screen[Any]) -> None:
        self._screen = screen
        self._held = ExitStack()

    def begin(self) -> None:
        self.end()
        held = self._held = ExitStack()
        held.enter_context(self._screen.app.batch_update())
        self._screen.set_timer(PATIENCE_SECONDS, held.close)

    def end(self) -> None:
        self._held.close()


class OneRecordScreen(RecordPage):
    """A record of one source or two."""

    ABOUT = "One record: every field; the value as text, JSON or hex, with nested levels folded."
    BINDINGS: ClassVar[list[BindingType]] = [FOLD]

    def __init__(
        self,
        context: Context,
        reader: BrowseReader,
        subject: BrowseSubject,
        pair: RecordPair,
        manner: Manner,
    ) -> None:
        super().__init__(context, pair, manner.form, single=subject.single)
        self._reader, self._subject = reader, subject
        self.query_shown = manner.query

    def read_record(self) -> Task:
        schemas = self.context.schemas
        return self._reader.whole_record(self, self._subject, self._pair.offset, schemas)

    def heading(self, pair: RecordPair, form: str) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        for name in names_of(self._subject, self.size.width - 2):
            text.append(f" {name}\n", role_style(self.app, Role.HEADING))
        return text.append(
            f" {bounded(about(pair, self._subject, letters=False), REASON_LENGTH)}  as {form}"
        )


class PagedRecords(PagedPairs):
    """Opens one source or two and pages through them; subclasses give the keys."""

    CSS = """
    #browse-status { dock: bottom; max-height: 3; margin-bottom: 1; }
    """

    def __init__(
        self,
        context: Context,
        subject: BrowseSubject,
        offset: int | None = None,
        connect: ConnectAny[BrowseSubject] | None = None,
    ) -> None:
        super().__init__(context)
        self._subject, self._first = subject, offset
        self._reader = BrowseReader(connect or partial(connect_to, context))
        self._found = SubjectSummary()
        self._map: Minimap | None = None
        self._one_frame = OneFrame(self)

    def body(self) -> Iterator[Widget]:
        yield StyledLines(id="browse-summary")
        yield PairList(self._moved, single=self._subject.single)
        if not self._subject.single:
            yield MapLine()
        yield StyledLines(id="browse-status")

    def on_mount(self) -> None:
        self._pairs.focus()
        self._pairs.set_sides(titles_of(self._subject), ())
        self._begin(self._reader.open(self, self._subject, self._first))
        self.draw()

    def on_unmount(self) -> None:
        self._one_frame.end()
        self._waiting.abandon()
        self._reader.close()

    @on(SourcesOpened)
    def _opened(self, message: SourcesOpened) -> None:
        if self._waiting.is_awaited(message.task):
            self._found.extent, self._found.refused = message.extent, False
            self._found.notes = tuple(message.notes)
            self._pairs.set_extent(message.extent)
            self.draw()
            self.refresh_bindings()

    @property
    def extent(self) -> Extent | None:
        return self._found.extent

    def read_around(self, offset: int) -> Task:
        self._one_frame.begin()
        return self._reader.around(self, self._subject, offset)

    def read_beyond(self, window: Window, *, above: bool) -> Task:
        read = self._reader.above if above else self._reader.below
        return read(self, self._subject, window)

    def _moved(self) -> None:
        self._waiting.say("")
        self.draw_doing()
        self._draw_map()

    @on(PairList.Chosen)
    def _chosen(self, message: PairList.Chosen) -> None:
        pair = message.pair
        if isinstance(pair.left, RecordEntry) or isinstance(pair.right, RecordEntry):
            manner = self._pairs.manner
            self.app.push_screen(
                OneRecordScreen(self.context, self._reader, self._subject, pair, manner)
            )

    @on(ComparisonRead)
    def _read(self, message: ComparisonRead) -> None:
        if self._waiting.is_awaited(message.task):
            self._waiting.end(message.task)
            self._pairs.set_window(message.window, message.goal, "There are no records.")
            self.draw_doing()
            self._draw_map()
            # Widgets tell the screen what to paint when they are idle.
            self.query_one("#browse-status", StyledLines).call_after_refresh(self._one_frame.end)

    @on(ComparisonFailed)
    def _refused(self, message: ComparisonFailed) -> None:
        if self._waiting.concerns(message.task):
            self._found.refused = self._found.extent is None

    @on(TaskEnded)
    def _end_frame(self) -> None:
        self._one_frame.end()

    def _open_again(self, subject: BrowseSubject) -> None:
        """Read *subject* as it is now; the cursor stays where it is."""
        offset = self._offset if self._pairs.current is not None else self._first
        self._waiting.abandon()
        self._subject = replace(subject, generation=subject.generation + 1)
        self._found.totals = self._map = None
        self._pairs.set_sides(titles_of(self._subject), ())
        self._begin(self._reader.open(self, self._subject, offset))
        self.draw()

    def _begin_beside(self, task: Task) -> None:
        self._waiting.begin_beside(task)
        self.draw_doing()

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        form, marked = self._pairs.manner.form, len(self._pairs.marked)
        styles = partial(role_style, self.app)
        drawn = summary(self._subject, self._found, form, marked, self.size.width, styles)
        self.query_one("#browse-summary", StyledLines).tell(drawn)
        self.draw_doing()
        self._draw_map()

    def _draw_map(self) -> None:
        for line in self.query(MapLine):
            line.show(self._map, self._offset)

    def draw_doing(self) -> None:
        """What is being done or was said, else what the cursor is on."""
        told, role = self._waiting.told()
        current = self._pairs.current
        if not told and current is not None:
            told, role = bounded(about(current, self._subject), SENTENCE_LENGTH), None
        text = Text(f" {told}", role_style(self.app, role) if role else "")
        self.query_one("#browse-status", StyledLines).tell(text)


LONGEST = 1_000


class AskPurpose(Enum):
    """What the line is written for; the value tells how."""

    SEARCH = HELP
    GO = "offset or time, then Enter"


class AskLine(Input):
    """Hidden until it is asked; Enter hides it and tells what was written."""

    DEFAULT_CSS = """
    AskLine {
        dock: bottom; height: 1; margin-bottom: 1; border: none; padding: 0 1; visibility: hidden;
    }
    AskLine:focus { border: none; }
    AskLine.shown { visibility: visible; }
    """

    class Given(Message):
        """Something was written, perhaps nothing."""

        def __init__(self, asked: AskPurpose, text: str) -> None:
            super().__init__()
            self.asked = asked
            self.text = text

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id, max_length=LONGEST, select_on_focus=False)
        self._asked = AskPurpose.SEARCH

    @property
    def shown(self) -> bool:
        return self.has_class("shown")

    def ask(self, asked: AskPurpose, value: str) -> None:
        self._asked, self.placeholder, self.value = asked, asked.value, value
        self.add_class("shown")
        self.focus()

    def hide(self) -> None:
        self.remove_class("shown")

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.post_message(self.Given(self._asked, message.value.strip()))
        self.hide()


COUNTED_AT_ONCE = 200_000
"""Differences of so many offsets are counted without being asked to."""


class RecordsScreen(PagedRecords):
    """Pages through records, searches, compares, exports."""

    TITLE = "Records"
    ABOUT = (
        "Records by offset. With two sources, in front of each line: = the same, ! different, "
        "< only on the left, > only on the right, ? not read; then what differs: e epoch, k key, "
        f"v value, h headers, t timestamp, y its type, m marker. Search by {HELP}."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", tooltip="Stop reading; when nothing is read, go back"),
        Binding("slash", "search", "search", key_display="/", tooltip="Search records"),
        Binding("n", "next(True)", "next", tooltip="Next match, difference or damage"),
        Binding(
            "N",
            "next(False)",
            "Previous",
            show=False,
            tooltip="Previous match, difference or damage",
        ),
        Binding("g", "go", "go to", tooltip="Go to an offset or a time"),
        Binding("v", "form", "view", tooltip="As text, JSON or hex in turn"),
        Binding("home", "end(False)", "First offset", show=False),
        Binding("end", "end(True)", "Last offset", show=False),
        Binding("space", "mark", "Mark", show=False, tooltip="Mark the record, or unmark it"),
        Binding("u", "unmark", "Unmark all", show=False),
        Binding("x", "export", "export", tooltip="Write the marked records to a file or folder"),
        Binding("c", "count", "count", tooltip="Count all differences"),
        Binding("s", "swap", "Swap", show=False, tooltip="Swap the sides"),
        Binding("y", "copy", "Copy", show=False, tooltip="Copy the record as JSON"),
        Binding("a", "copy_address", "Copy address", show=False),
    ]

    def body(self) -> Iterator[Widget]:
        yield from super().body()
        yield AskLine(id="browse-field")

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs two sources, or one, is only there where it can be done."""
        single = self._subject.single
        if action in ("count", "swap"):
            return not single
        if action in ("mark", "unmark"):
            return single
        if action == "export":
            return (bool(self._pairs.marked) or None) if single and self.is_mounted else False
        return True

    # Where to.

    def action_back(self) -> None:
        if self._field.shown:
            self._field.hide()
            self._pairs.focus()
        elif self.busy:
            self._waiting.abandon()
            self._say("Given up.")
        else:
            self.dismiss()

    def action_ask_refresh(self) -> None:
        self._open_again(self._subject)
        super().action_ask_refresh()

    def action_next(self, forward: bool) -> None:
        """To the next find of the search; without one, to the next difference or damage."""
        subject, at, query = self._subject, self._offset, self._found.query
        held = self._pairs.next_run() if forward else self._pairs.previous_run()
        if query is not None:
            self._begin(self._reader.match(self, subject, query, at, forward=forward))
        elif held is not None:
            self._go(held)
        else:
            self._begin(self._reader.search(self, subject, at, forward=forward))

    def action_search(self) -> None:
        query = self._found.query
        self._field.ask(AskPurpose.SEARCH, query.text if query else "")

    def action_go(self) -> None:
        self._field.ask(AskPurpose.GO, "")

    @on(AskLine.Given)
    def _given(self, message: AskLine.Given) -> None:
        try:
            if message.asked is AskPurpose.SEARCH:
                self._search(message.text)
            elif message.text:
                digits = message.text.replace(",", "")
                if digits.isascii() and digits.isdigit():
                    self._go(int(digits))
                else:
                    self._begin(self._reader.moment(self, self._subject, parse_time(message.text)))
        except UsageError as error:
            self._say(str(error))
        # Last, because the reading continues while the list is drawn.
        self._pairs.focus()

    def _search(self, text: str) -> None:
        """From the cursor's own record on; without *text* for nothing any more."""
        query = self._found.query = parse_query(text) if text else None
        self._pairs.set_manner(replace(self._pairs.manner, query=query))
        if query is not None:
            before = self._offset - 1
            self._begin(self._reader.match(self, self._subject, query, before, forward=True))
        self.draw()

    def action_copy(self) -> None:
        """The record under the cursor, of the left side where both have it."""
        pair = self._pairs.current
        entry = (
            None if pair is None else next((one for one in (pair.left, pair.right) if one), None)
        )
        if not isinstance(entry, RecordEntry):
            return
        from breakglass.services.browse.export import record_text

        text = record_text(entry)
        if text is None:
            told = "Only the beginning of this record is shown: Space, then x, writes it whole."
            self.notify(told, markup=False)
        else:
            self.app.post_message(CopyAsked(text, f"the record at {entry.offset:,}"))

    def action_copy_address(self) -> None:
        left, right = self._subject.titles
        text = f"{left} {right}".strip()
        self.app.post_message(CopyAsked(text, "the address"))

    # Marks and export.

    def action_mark(self) -> None:
        pair = self._pairs.current
        if pair is not None and isinstance(pair.left, RecordEntry):
            self._set_marked(self._pairs.marked ^ {pair.offset})
            self._pairs.action_move(1)

    def action_unmark(self) -> None:
        self._set_marked(frozenset())

    def _set_marked(self, marked: frozenset[int]) -> None:
        self._pairs.set_marked(marked)
        self.draw()
        self.refresh_bindings()

    def action_export(self) -> None:
        marked = self._pairs.marked
        if marked:
            self.app.push_screen(
                Prompt(
                    f"Write {len(marked):,} records",
                    about="A file that ends with .jsonl, or the folder of a new backup.",
                ),
                self._export_to,
            )

    def _export_to(self, path: str | None) -> None:
        if path and path.strip():
            to = Path(path.strip()).expanduser()
            self._begin_beside(self._reader.export(self, self._subject, self._pairs.marked, to))

    @on(RecordsExported)
    def _exported(self, message: RecordsExported) -> None:
        if self._waiting.is_beside(message.task):
            self._say(f"{message.count:,} records written: {message.path}")

    # Two sides.

    def action_count(self) -> None:
        if not self._waiting.of_beside:
            self._begin_beside(self._reader.map(self, self._subject))

    def action_swap(self) -> None:
        right = self._subject.right
        if right is not None:
            self._open_again(replace(self._subject, left=right, right=self._subject.left))

    @on(MapGrown)
    def _map_grown(self, message: MapGrown) -> None:
        if self._waiting.is_beside(message.task):
            self._map = message.cells
            self._draw_map()

    @on(ComparisonCounted)
    def _counted(self, message: ComparisonCounted) -> None:
        if self._waiting.is_beside(message.task):
            self._found.totals = message.totals
            self.draw()

    @on(SourcesOpened)
    def _count_at_once(self, message: SourcesOpened) -> None:
        size = message.extent.end - message.extent.start
        awaited = self._waiting.is_awaited(message.task)
        if awaited and not self._subject.single and size <= COUNTED_AT_ONCE:
            self.action_count()

    @on(ComparisonSearched)
    def _found_none(self, message: ComparisonSearched) -> None:
        if self._waiting.is_awaited(message.task):
            where = "after" if message.forward else "before"
            what = "Nothing differs" if self._found.query is None else "Nothing matches"
            if self._subject.single and self._found.query is None:
                what = "Nothing is damaged"
            self._say(f"{what} {where} this record.")

    @property
    def _field(self) -> AskLine:
        return self.query_one(AskLine)
