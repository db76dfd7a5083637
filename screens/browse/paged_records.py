"""A list of records that reads on where the cursor goes, and says what is being read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from rich.text import Text
from textual import on
from textual.widget import Widget

from screens.browse.map_line import MapLine
from screens.browse.one_frame import OneFrame
from screens.browse.one_record import OneRecordScreen
from screens.browse.reader import BrowseReader
from screens.browse.subject import Subject, connect_to
from screens.browse.summary import Found, summary
from screens.browse.wording import about, titles_of
from screens.context import Context
from screens.diff.messages import (
    ComparisonFailed,
    ComparisonProgress,
    ComparisonRead,
    SourcesOpened,
    TaskEnded,
)
from screens.diff.pair_list import PairList
from screens.diff.reader import ConnectAny
from screens.diff.task import SOON_SECONDS, Task
from screens.diff.waiting import SENTENCE_LENGTH, Waiting
from screens.page import Page
from screens.widgets.told import Told
from services.divergence.entry import Entry
from services.divergence.minimap import Minimap
from services.words.inert import bounded
from themes.roles import role_style


class PagedRecords(Page):
    """Opens one source or two and pages through them; subclasses give the keys."""

    CSS = """
    #browse-status { dock: bottom; max-height: 3; margin-bottom: 1; }
    """

    def __init__(
        self,
        context: Context,
        subject: Subject,
        offset: int | None = None,
        connect: ConnectAny[Subject] | None = None,
    ) -> None:
        super().__init__(context)
        self._subject, self._first = subject, offset
        self._reader = BrowseReader(connect or partial(connect_to, context))
        self._found = Found()
        self._map: Minimap | None = None
        self._waiting = Waiting()
        self._one_frame = OneFrame(self)

    @property
    def busy(self) -> bool:
        """Something is being read."""
        return self._waiting.busy

    def body(self) -> Iterator[Widget]:
        yield Told(id="browse-summary")
        yield PairList(self._moved, single=self._subject.single)
        if not self._subject.single:
            yield MapLine()
        yield Told(id="browse-status")

    def on_mount(self) -> None:
        self._pairs.focus()
        self._pairs.set_sides(titles_of(self._subject), ())
        self._begin(self._reader.open(self, self._subject, self._first))
        self._draw()

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
            self._draw()
            self.refresh_bindings()

    @on(PairList.EdgeNear)
    def _read_on(self, message: PairList.EdgeNear) -> None:
        """Read more where there is more, unless something is being read."""
        extent, window = self._found.extent, self._pairs.window
        if extent is None or self._waiting.of_list:
            return
        if message.top and window.start > extent.start:
            self._begin(self._reader.above(self, self._subject, window))
        elif not message.top and window.end < extent.end:
            self._begin(self._reader.below(self, self._subject, window))

    def _moved(self) -> None:
        self._waiting.say("")
        self._draw_doing()
        self._draw_map()

    @on(PairList.Chosen)
    def _chosen(self, message: PairList.Chosen) -> None:
        pair = message.pair
        if isinstance(pair.left, Entry) or isinstance(pair.right, Entry):
            form = self._pairs.manner.form
            self.app.push_screen(
                OneRecordScreen(self.context, self._reader, self._subject, pair, form)
            )

    @on(ComparisonRead)
    def _read(self, message: ComparisonRead) -> None:
        if self._waiting.is_awaited(message.task):
            self._waiting.end(message.task)
            self._pairs.set_window(message.window, message.goal, "There are no records.")
            self._draw_doing()
            self._draw_map()
            # Widgets tell the screen what to paint when they are idle.
            self.query_one("#browse-status", Told).call_after_refresh(self._one_frame.end)

    @on(ComparisonProgress)
    def _progressed(self, message: ComparisonProgress) -> None:
        if self._waiting.concerns(message.task):
            self._waiting.reached(message.offset)
            self._draw_doing()

    @on(ComparisonFailed)
    def _failed(self, message: ComparisonFailed) -> None:
        if self._waiting.concerns(message.task):
            self._say(str(message.error))
            if not self._pairs.window.pairs:
                empty = bounded(str(message.error), SENTENCE_LENGTH)
                self._pairs.set_window(self._pairs.window, empty=empty)
            self._found.refused = self._found.extent is None
            self._draw()

    @on(TaskEnded)
    def _task_ended(self, message: TaskEnded) -> None:
        self._one_frame.end()
        self._waiting.end(message.task)
        self._draw_doing()

    def action_end(self, last: bool) -> None:
        extent = self._found.extent
        if extent is not None:
            self._go(max(extent.start, extent.end - 1) if last else extent.start)

    def action_form(self) -> None:
        manner = self._pairs.manner
        self._pairs.set_manner(replace(manner, form=manner.form.next))
        self._draw()

    @property
    def _pairs(self) -> PairList:
        return self.query_one(PairList)

    @property
    def _offset(self) -> int:
        """Where the cursor is."""
        current = self._pairs.current
        return self._pairs.window.start if current is None else current.offset

    def _go(self, offset: int) -> None:
        """Put the cursor on *offset*, reading around it where that is not held."""
        window = self._pairs.window
        if window.start <= offset < window.end:
            self._pairs.set_window(window, offset)
            self._pairs.look_for_more()
            self._draw()
        elif self._found.extent is not None:
            self._one_frame.begin()
            self._begin(self._reader.around(self, self._subject, offset))

    def _open_again(self, subject: Subject) -> None:
        """Read *subject* as it is now; the cursor stays where it is."""
        offset = self._offset if self._pairs.current is not None else self._first
        self._waiting.abandon()
        self._subject = replace(subject, generation=subject.generation + 1)
        self._found.totals = self._map = None
        self._pairs.set_sides(titles_of(self._subject), ())
        self._begin(self._reader.open(self, self._subject, offset))
        self._draw()

    def _begin(self, task: Task) -> None:
        """Wait for *task*, and for none before it."""
        self._waiting.begin(task)
        self.set_timer(SOON_SECONDS, self._draw_doing)

    def _begin_beside(self, task: Task) -> None:
        self._waiting.begin_beside(task)
        self._draw_doing()

    def _say(self, text: str) -> None:
        self._waiting.say(text)
        self._draw_doing()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        form, marked = self._pairs.manner.form, len(self._pairs.marked)
        styles = partial(role_style, self.app)
        drawn = summary(self._subject, self._found, form, marked, self.size.width, styles)
        self.query_one("#browse-summary", Told).tell(drawn)
        self._draw_doing()
        self._draw_map()

    def _draw_map(self) -> None:
        for line in self.query(MapLine):
            line.show(self._map, self._offset)

    def _draw_doing(self) -> None:
        """What is being done or was said, else what the cursor is on."""
        told, role = self._waiting.told()
        current = self._pairs.current
        if not told and current is not None:
            told, role = bounded(about(current, self._subject), SENTENCE_LENGTH), None
        text = Text(f" {told}", role_style(self.app, role) if role else "")
        self.query_one("#browse-status", Told).tell(text)
