"""The records of one source, or of two side by side, read where the cursor goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input
from typing_extensions import override

from breakglass.screens.browse.subject import BrowseSubject, connect_to
from breakglass.screens.context import Context
from breakglass.screens.diff.lines import Titles, different_text, fields_told
from breakglass.screens.diff.paged import Connect, PagedPairs, Task
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.diff.record_page import FOLD, REASON_LENGTH, RecordScreen
from breakglass.screens.messages import CopyAsked
from breakglass.screens.widgets.dialog import Prompt
from breakglass.screens.widgets.facts import StyledLines
from breakglass.services.browse.query import (
    HELP,
    RecordQuery,
    first_at,
    next_match,
    parse_query,
    parse_time,
    previous_match,
)
from breakglass.services.divergence.align import (
    Cell,
    Comparison,
    HunkTotals,
    Minimap,
    PairKind,
    RecordPair,
    runs,
)
from breakglass.services.divergence.backup_source import BackupSource, MetastoreSource
from breakglass.services.divergence.entry import RecordEntry, UnreadableRange
from breakglass.services.divergence.pages import Progress, Window, around
from breakglass.services.divergence.source import Extent, Reading, Same
from breakglass.services.errors import BreakglassError, UsageError
from breakglass.services.words.inert import CUT, bounded, inert
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from breakglass.services.browse.schemas import Schemas

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
            many = item.end - item.start > 1
            offsets = (
                f"offsets {item.start:,} to {item.end - 1:,}" if many else f"offset {item.start:,}"
            )
            return f"{offsets} cannot be read{where}: {item.reason}"
    if subject.single:
        entry = pair.left
        if not isinstance(entry, RecordEntry):
            return ""
        headers = entry.headers.count
        size = "null" if entry.value is None else f"{entry.value.size:,} bytes"
        return (
            f"offset {entry.offset:,}, {time_text(entry.timestamp)}, value {size}, "
            f"{headers:,} header{'s' * (headers != 1)}"
        )
    if pair.kind is PairKind.DIFFERENT:
        return f"offset {pair.offset:,}: different in {fields_told(pair, letters=letters)}"
    only = one if pair.kind is PairKind.LEFT else other
    where = "the same in both" if pair.kind is PairKind.EQUAL else f"only in {only}"
    return f"offset {pair.offset:,}: {where}"


def names_of(subject: BrowseSubject, width: int) -> tuple[str, ...]:
    """The addresses in *width* columns, with the sign and the letter that stand for them."""
    left, right = subject.titles
    if subject.single:
        return (cropped(left, width),)
    # What the address itself begins with is not said twice.
    one, other = (f"{brief} " if len(brief) == 1 else "" for brief in subject.briefs)
    return cropped(f"< {one}{left}", width), cropped(f"> {other}{right}", width)


def cropped(text: str, width: int) -> str:
    """The inert *text* in *width* characters: how it begins and, above all, how it ends."""
    shown = inert(text)
    if len(shown) <= width:
        return shown
    head = min(width // 3, HEAD_LENGTH)
    return shown[:head] + CUT + shown[len(shown) - max(width - head - len(CUT), 1) :]


QUERY_LENGTH = 60
NOTE_LENGTH = 400

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


MOST_NOTES = 20
TELL_EVERY = 2_048
"""Pairs between two reports of a count."""
SAME_WEIGHS = 64
"""How many pairs a stretch that is the same counts for in that: it takes about as long."""
COUNTED_AT_ONCE = 200_000
"""Differences of so many offsets are counted without being asked to."""


class OneRecordScreen(RecordScreen):
    """A record of one source or two."""

    ABOUT = "One record: every field; the value as text, JSON or hex, with nested levels folded."
    BINDINGS: ClassVar[list[BindingType]] = [FOLD]


class RecordsScreen(PagedPairs[BrowseSubject]):
    """Pages through records, searches, compares, exports."""

    TITLE = "Records"
    ABOUT = (
        "Records by offset. With two sources, in front of each line: = the same, ! different, "
        "< only on the left, > only on the right, ? not read; then what differs: e epoch, k key, "
        f"v value, h headers, t timestamp, y its type, m marker. Search by {HELP}."
    )
    EMPTY = "There are no records."
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

    def __init__(
        self,
        context: Context,
        subject: BrowseSubject,
        offset: int | None = None,
        connect: Connect[BrowseSubject] | None = None,
    ) -> None:
        super().__init__(context, connect or partial(connect_to, context))
        self._subject, self._first = subject, offset
        self._extent: Extent | None = None
        self._refused = False
        """It could not be opened."""
        self._notes: tuple[str, ...] = ()
        self._totals: HunkTotals | None = None
        self._query: RecordQuery | None = None
        self._map: Minimap | None = None
        self._one_frame = OneFrame(self)

    def body(self) -> Iterator[Widget]:
        yield StyledLines(id="browse-summary")
        yield PairList(self._moved, single=self.single)
        if not self.single:
            yield MapLine()
        yield StyledLines(id="status")
        yield AskLine(id="browse-field")

    def on_mount(self) -> None:
        self._pairs.focus()
        self._open(self._subject, self._first)

    def on_unmount(self) -> None:
        self._one_frame.end()

    def on_resize(self) -> None:
        self.draw()

    @property
    def subject(self) -> BrowseSubject:
        return self._subject

    @property
    def single(self) -> bool:
        return self._subject.single

    @property
    def schemas(self) -> Schemas | None:
        return self.context.schemas

    @property
    def topic(self) -> str:
        return self._subject.left.topic_partition.topic

    @property
    def extent(self) -> Extent | None:
        return self._extent

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs two sources, or one, is only there where it can be done."""
        single = self.single
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
        else:
            self.leave()

    def action_ask_refresh(self) -> None:
        self._open_again(self._subject)
        super().action_ask_refresh()

    def _open_again(self, subject: BrowseSubject) -> None:
        """Read *subject* as it is now; the cursor stays where it is."""
        offset = self._offset if self._pairs.current is not None else self._first
        self._abandon()
        self._totals = self._map = None
        self._open(replace(subject, generation=subject.generation + 1), offset)

    def _open(self, subject: BrowseSubject, offset: int | None) -> None:
        self._subject = subject
        self._pairs.set_sides(titles_of(subject), ())

        def work(comparison: Comparison, task: Task) -> None:
            sources = {id(source): source for source in (comparison.left, comparison.right)}
            left_out = [
                str(note)
                for source in sources.values()
                if isinstance(source, BackupSource | MetastoreSource)
                for note in source.left_out
            ]
            task.tell(self._opened, comparison.extent, tuple(left_out[:MOST_NOTES]))
            goal = comparison.extent.start if offset is None else offset
            task.tell(self.show_window, around(comparison, goal, task.reading), goal)

        self._begin(f"Opening {subject.left}", work)
        self.draw()

    def _opened(self, extent: Extent, notes: tuple[str, ...]) -> None:
        self._extent, self._refused, self._notes = extent, False, notes
        self._pairs.set_extent(extent)
        self.draw()
        self.refresh_bindings()
        if not self.single and extent.end - extent.start <= COUNTED_AT_ONCE:
            self.action_count()

    def action_next(self, forward: bool) -> None:
        """To the next find of the search; without one, to the next difference or damage."""
        if self._query is None:
            self._go_to_difference(forward=forward)
        else:
            self._find(self._query, self._offset, forward=forward)

    def _find(self, query: RecordQuery, offset: int, *, forward: bool) -> None:
        """Look for the next or the previous record that *query* fits, and read about it."""
        look = next_match if forward else previous_match
        self._search(
            f"Searching for {query.text}",
            lambda comparison, reading, progress: look(
                comparison, query, offset, reading, progress
            ),
            forward=forward,
        )

    def action_search(self) -> None:
        query = self._query
        self._field.ask(AskPurpose.SEARCH, query.text if query else "")

    def action_go(self) -> None:
        self._field.ask(AskPurpose.GO, "")

    @on(AskLine.Given)
    def _given(self, message: AskLine.Given) -> None:
        try:
            if message.asked is AskPurpose.SEARCH:
                self._search_for(message.text)
            elif message.text:
                digits = message.text.replace(",", "")
                if digits.isascii() and digits.isdigit():
                    self._go(int(digits))
                else:
                    moment_ms = parse_time(message.text)

                    def look(comparison: Comparison, reading: Reading, _: Progress) -> int:
                        return first_at(comparison.left, moment_ms, reading)

                    self._search("Looking for that time", look, forward=True)
        except UsageError as error:
            self._say(str(error))
        # Last, because the reading continues while the list is drawn.
        self._pairs.focus()

    def _search_for(self, text: str) -> None:
        """From the cursor's own record on; without *text* for nothing any more."""
        query = self._query = parse_query(text) if text else None
        self._pairs.set_manner(replace(self._pairs.manner, query=query))
        if query is not None:
            self._find(query, self._offset - 1, forward=True)
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
                    about="A file ending in .jsonl, .json or .csv, or the folder of a new backup.",
                ),
                self._export_to,
            )

    def _export_to(self, path: str | None) -> None:
        if path and path.strip():
            to, marked = Path(path.strip()).expanduser(), self._pairs.marked
            partition = self._subject.left.topic_partition

            def work(comparison: Comparison, task: Task) -> None:
                from breakglass.services.browse.export import export

                written = export(comparison.left, partition, marked, to, task.reading)
                if not written:
                    raise UsageError("None of the marked records exists any more.")
                task.tell(self._say, f"{written:,} records written: {to}")

            self._begin_beside(f"Writing {len(marked):,} records", work)

    # Two sides.

    def action_count(self) -> None:
        """Count and locate all differences."""
        if self._beside is not None:
            return

        def work(comparison: Comparison, task: Task) -> None:
            extent = comparison.extent
            totals, cells, seen = HunkTotals(), Minimap(extent), 0
            for run in runs(comparison, extent.start, extent.end, task.reading):
                totals.add(run)
                cells.add(run)
                seen += SAME_WEIGHS if isinstance(run, Same) else 1
                if seen >= TELL_EVERY:
                    seen = 0
                    # Copied for the screen, which draws it while this one grows.
                    task.moved(replace(cells, cells=list(cells.cells)))
                    task.moved(run.end - 1)
            task.moved(cells)
            task.tell(self._counted, totals)

        self._begin_beside("Counting the differences", work)

    def action_swap(self) -> None:
        right = self._subject.right
        if right is not None:
            self._open_again(replace(self._subject, left=right, right=self._subject.left))

    def show_map(self, cells: Minimap) -> None:
        self._map = cells
        self._draw_map()

    def _counted(self, totals: HunkTotals) -> None:
        self._totals = totals
        self.draw()

    # What is shown.

    def _moved(self) -> None:
        self._say("")
        self._draw_map()

    @on(PairList.Chosen)
    def _chosen(self, message: PairList.Chosen) -> None:
        pair = message.pair
        if isinstance(pair.left, RecordEntry) or isinstance(pair.right, RecordEntry):
            self.app.push_screen(OneRecordScreen(self, pair))

    def read_around(self, offset: int) -> None:
        self._one_frame.begin()
        super().read_around(offset)

    def show_window(self, window: Window, goal: int | None) -> None:
        super().show_window(window, goal)
        self.draw_doing()
        self._draw_map()
        # Widgets tell the screen what to paint when they are idle.
        self.query_one("#status", StyledLines).call_after_refresh(self._one_frame.end)

    def show_none(self, forward: bool) -> None:
        what = "Nothing differs" if self._query is None else "Nothing matches"
        if self.single and self._query is None:
            what = "Nothing is damaged"
        self._say(f"{what} {'after' if forward else 'before'} this record.")

    def task_failed(self, task: Task, error: BreakglassError) -> None:
        self._refused = self._extent is None
        super().task_failed(task, error)

    def task_ended(self, task: Task) -> None:
        super().task_ended(task)
        self._one_frame.end()

    def draw(self) -> None:
        self.query_one("#browse-summary", StyledLines).tell(self._summary(self.size.width))
        self.draw_doing()
        self._draw_map()

    def _summary(self, width: int) -> Text:
        marked, styles = len(self._pairs.marked), partial(role_style, self.app)
        text = Text(no_wrap=True, overflow="ellipsis")
        for name in names_of(self._subject, width - 2):
            text.append(f" {name}\n", styles(Role.HEADING))
        opened = f" {extent_text(self._extent)}, as {self.manner.form}"
        text.append(" not opened" if self._refused else opened)
        if marked:
            text.append("  ").append(f"{marked:,} marked", styles(Role.MARKED))
        if self._query is not None:
            searched = bounded(self._query.text, QUERY_LENGTH)
            text.append("  ").append(f"search: {searched}", styles(Role.DIFFERENT))
        if not self.single:
            told = totals_text(self._subject, self._totals)
            line = text.plain.rsplit("\n", 1)[-1]
            text.append(f"  {told}" if cell_len(line) + len(told) + 2 <= width else f"\n {told}")
        if self._notes:
            more = f" and {len(self._notes) - 1} more" if len(self._notes) > 1 else ""
            note = bounded(self._notes[0], NOTE_LENGTH)
            text.append(f"\n {note}{more}", styles(Role.UNKNOWN))
        return text

    def _draw_map(self) -> None:
        for line in self.query(MapLine):
            line.show(self._map, self._offset)

    def about(self, pair: RecordPair) -> str:
        return about(pair, self._subject)

    def heading(self, pair: RecordPair, form: str, width: int) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        for name in names_of(self._subject, width - 2):
            text.append(f" {name}\n", role_style(self.app, Role.HEADING))
        told = about(pair, self._subject, letters=False)
        return text.append(f" {bounded(told, REASON_LENGTH)}  as {form}")

    @property
    def _field(self) -> AskLine:
        return self.query_one(AskLine)
