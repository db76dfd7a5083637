"""The records of one source or two, and the widgets around the list of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.binding import BindingType
from textual.screen import Screen
from textual.widget import Widget

from breakglass.screens.browse.reader import BrowseReader
from breakglass.screens.browse.subject import BrowseSubject, connect_to
from breakglass.screens.browse.wording import SubjectSummary, about, names_of, summary, titles_of
from breakglass.screens.context import Context
from breakglass.screens.diff.paged import SENTENCE_LENGTH, PagedPairs
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.diff.reader import (
    ComparisonFailed,
    ComparisonRead,
    ConnectAny,
    SourcesOpened,
    Task,
    TaskEnded,
)
from breakglass.screens.diff.record_page import FOLD, REASON_LENGTH, RecordPage
from breakglass.screens.widgets.told import StyledLines
from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.divergence.minimap import Cell, Minimap
from breakglass.services.divergence.pages import Window
from breakglass.services.divergence.source import Extent
from breakglass.services.words.inert import bounded
from breakglass.services.words.record_text import TextForm
from breakglass.themes.roles import Role, role_style

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
        """Draw *cells*, and where *offset* is among them."""
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
        form: TextForm,
    ) -> None:
        super().__init__(context, pair, form, single=subject.single)
        self._reader, self._subject = reader, subject

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
            form = self._pairs.manner.form
            self.app.push_screen(
                OneRecordScreen(self.context, self._reader, self._subject, pair, form)
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
