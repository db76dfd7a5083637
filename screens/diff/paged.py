"""A page with a list of pairs that reads on where the cursor goes, and says what is being read.

Its reader has one connection, and a thread and reports for each task.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from rich.text import Text
from textual import on
from textual.message import Message

from breakglass.screens.context import Context
from breakglass.screens.diff.lines import Manner
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.page import Page
from breakglass.screens.refreshing import as_ours
from breakglass.screens.widgets.facts import StyledLines
from breakglass.services import patience
from breakglass.services.divergence.align import Comparison, Minimap, RecordPair
from breakglass.services.divergence.pages import (
    Progress,
    Window,
    around,
    next_difference,
    page_before,
    page_from,
    previous_difference,
)
from breakglass.services.divergence.replica_source import Facing, comparison_of
from breakglass.services.divergence.source import Abandoned, Extent, Reading
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from breakglass.services.browse.schemas import Schemas


T = TypeVar("T")
"""What is compared: a `Facing`, or whatever else names two sides."""

Compare = Callable[[T], Comparison]
Connect = Callable[[], AbstractContextManager[Compare[T]]]
"""Opens a connection, called in a thread; what it gives compares until it is closed."""

THREADS = 2
"""One for the list, one for a count beside it."""
SOON_SECONDS = 0.15
"""Seconds after which a task is shown; most are done before anybody could read their name."""


class TaskPage(Page):
    """A page that begins tasks, and hears how they end."""

    def task_failed(self, task: Task, error: BreakglassError) -> None:
        """*task* cannot be done now."""
        raise NotImplementedError

    def task_ended(self, task: Task) -> None:
        """The thread of *task* is done, whatever it found."""
        raise NotImplementedError


class TaskMoved(Message):
    """How far *task* has come: to an offset, or a map of where two sources differ."""

    def __init__(self, task: Task, found: int | Minimap) -> None:
        super().__init__()
        self.task = task
        self.found = found

    def can_replace(self, message: Message) -> bool:
        """A newer word on the same task makes an older one needless."""
        same = isinstance(message, TaskMoved) and message.task is self.task
        return same and type(message.found) is type(self.found)  # type: ignore[attr-defined]


class Task:
    """What one thread does for *screen*; once it was given up, nothing of it is shown."""

    def __init__(self, screen: TaskPage, doing: str) -> None:
        self.screen = screen
        self.doing = doing
        """For the screen: ``Searching for the next difference``."""
        self.reached: int | None = None
        """The offset that it has come to."""
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        self._abandoned.set()

    def go_on(self) -> None:
        """Asked by the thread now and then; raises Abandoned."""
        if self._abandoned.is_set():
            raise Abandoned

    @property
    def reading(self) -> Reading:
        return Reading(go_on=self.go_on)

    def moved(self, found: int | Minimap) -> None:
        self.screen.post_message(TaskMoved(self, found))

    def tell(self, show: Callable[..., object], *found: object) -> None:
        """From the thread: let the screen *show* what was *found*."""
        self.screen.call_later(self._show, show, *found)

    def _show(self, show: Callable[..., object], *found: object) -> None:
        if not self._abandoned.is_set():
            show(*found)


Work = Callable[[Comparison, Task], None]


@contextmanager
def connect_to(context: Context) -> Iterator[Compare[Facing]]:
    """Compare replicas by the session's own access, or by the records of its bundle.

    Raises Unreachable: no bootstrap server answers.
    """
    if context.bundle is not None:
        yield context.bundle.comparison
        return
    with context.reading() as client:
        deadline = Deadline.after(patience.REQUEST)
        until(deadline, lambda: client.describe(deadline))
        yield lambda facing: comparison_of(facing, client.sender)


class Reader(Generic[T]):
    """Does tasks, each of which reports what it found, and that it ended."""

    def __init__(self, connect: Connect[T]) -> None:
        self._connect = connect
        self._open = ExitStack()
        self._compare: Compare[T] | None = None
        self._lock = threading.Lock()
        """Locked while connecting: tasks may begin side by side."""
        self._threads = ThreadPoolExecutor(THREADS, "diff")
        """Our own, so that a hung broker never takes those that refresh the console."""
        self._closed = False

    def begin(self, task: Task, subject: T, work: Work) -> Task:
        """Let *work* be done as soon as one of our threads is free; what was given up frees it."""
        self._threads.submit(copy_context().run, self._run, task, subject, work)
        return task

    def close(self) -> None:
        """End the connection, and with it every wait of a thread for it."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._open.close()

    def _run(self, task: Task, subject: T, work: Work) -> None:
        """In a thread."""
        screen = task.screen
        try:
            task.go_on()
            comparison = self._connected()(subject)
            task.go_on()
            work(comparison, task)
        except Abandoned:
            pass
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            ours = as_ours(error, "these records cannot be compared")
            task.tell(screen.task_failed, task, ours)
        finally:
            task.tell(screen.task_ended, task)

    def _connected(self) -> Compare[T]:
        with self._lock:
            if self._compare is None and not self._closed:
                self._compare = self._open.enter_context(self._connect())
            if self._compare is None or self._closed:
                self._open.close()
                raise Abandoned
            return self._compare


SENTENCE_LENGTH = 400


class PagedPairs(TaskPage, Generic[T]):
    """Subclasses have a `PairList`, say what is compared, and draw what is around the list."""

    CSS = """
    #status { dock: bottom; max-height: 3; margin-bottom: 1; }
    """
    EMPTY: ClassVar[str]
    """Said where there are no records at all."""

    def __init__(self, context: Context, connect: Connect[T]) -> None:
        super().__init__(context)
        self._reader: Reader[T] = Reader(connect)
        self._awaited: Task | None = None
        """What the list waits for."""
        self._beside: Task | None = None
        """A count or an export."""
        self._said = ""

    @property
    def subject(self) -> T | None:
        """What is compared now."""
        raise NotImplementedError

    @property
    def extent(self) -> Extent | None:
        raise NotImplementedError

    def draw(self) -> None:
        raise NotImplementedError

    def about(self, pair: RecordPair) -> str:
        """What *pair* is, in words."""
        raise NotImplementedError

    def heading(self, pair: RecordPair, form: str, width: int) -> Text:
        """Above *pair* alone: whose it is, how its sides compare, and as what it is shown."""
        raise NotImplementedError

    @property
    def single(self) -> bool:
        """There is one side alone."""
        return False

    @property
    def schemas(self) -> Schemas | None:
        """What keys and values of a record are decoded by."""
        return None

    @property
    def topic(self) -> str:
        raise NotImplementedError

    @property
    def manner(self) -> Manner:
        return self._pairs.manner

    def show_window(self, window: Window, goal: int | None) -> None:
        """Show what was read; the cursor goes to the offset *goal*, or stays on its record."""
        self._awaited = None
        self._pairs.set_window(window, goal, self.EMPTY)

    def show_none(self, forward: bool) -> None:
        """A search has ended without a find."""
        raise NotImplementedError

    @property
    def busy(self) -> bool:
        return self._awaited is not None or self._beside is not None

    @property
    def _pairs(self) -> PairList:
        return self.query_one(PairList)

    @property
    def _offset(self) -> int:
        current = self._pairs.current
        return self._pairs.window.start if current is None else current.offset

    def on_unmount(self) -> None:
        self._abandon()
        self._reader.close()

    # What is done.

    def action_form(self) -> None:
        manner = self._pairs.manner
        self._pairs.set_manner(replace(manner, form=manner.form.next))
        self.draw()

    def action_end(self, last: bool) -> None:
        extent = self.extent
        if extent is not None:
            self._go(max(extent.start, extent.end - 1) if last else extent.start)

    def leave(self) -> None:
        """Stop reading; when nothing is read, go back."""
        if self.busy:
            self._abandon()
            self._say("Given up.")
        else:
            self.dismiss()

    @on(PairList.EdgeNear)
    def _read_on(self, message: PairList.EdgeNear) -> None:
        """Read more where there is more, unless something is being read."""
        extent, window = self.extent, self._pairs.window
        if extent is None or self._awaited is not None:
            return

        def above(comparison: Comparison, task: Task) -> None:
            page = page_before(comparison, window.start, task.reading)
            task.tell(self.show_window, window.above(page), None)

        def below(comparison: Comparison, task: Task) -> None:
            page = page_from(comparison, window.end, task.reading)
            task.tell(self.show_window, window.below(page), None)

        if message.top and window.start > extent.start:
            self._begin(f"Reading before offset {window.start:,}", above)
        elif not message.top and window.end < extent.end:
            self._begin(f"Reading from offset {window.end:,}", below)

    def _go(self, offset: int) -> None:
        """Put the cursor on *offset*, reading around it where the window does not have it."""
        window = self._pairs.window
        if window.start <= offset < window.end:
            self._pairs.set_window(window, offset)
            self._pairs.look_for_more()
            self.draw()
        elif self.extent is not None:
            self.read_around(offset)

    def read_around(self, offset: int) -> None:
        def work(comparison: Comparison, task: Task) -> None:
            window = around(comparison, offset, task.reading)
            task.tell(self.show_window, window, offset)

        self._begin(f"Reading around offset {offset:,}", work)

    def _go_to_difference(self, *, forward: bool) -> None:
        """To where the next or the previous run of differences begins."""
        held = self._pairs.next_run() if forward else self._pairs.previous_run()
        if held is not None:
            self._go(held)
        elif self.subject is not None:
            at, look = self._offset, next_difference if forward else previous_difference
            self._search(
                f"Searching for the {'next' if forward else 'previous'} difference",
                lambda comparison, reading, progress: look(comparison, at, reading, progress),
                forward=forward,
            )

    def _search(
        self,
        doing: str,
        look: Callable[[Comparison, Reading, Progress], int | None],
        *,
        forward: bool,
    ) -> None:
        def work(comparison: Comparison, task: Task) -> None:
            found = look(comparison, task.reading, task.moved)
            if found is None:
                task.tell(self.show_none, forward)
            else:
                task.tell(self.show_window, around(comparison, found, task.reading), found)

        self._begin(doing, work)

    # Tasks.

    def _begin(self, doing: str, work: Work) -> None:
        """Wait for *work*, and for nothing before it."""
        if self._awaited is not None:
            self._awaited.abandon()
        self._awaited, self._said = self.begin_task(Task(self, doing), work), ""
        self.set_timer(SOON_SECONDS, self.draw_doing)

    def _begin_beside(self, doing: str, work: Work) -> None:
        """Let *work* be done beside the list, in place of earlier work."""
        if self._beside is not None:
            self._beside.abandon()
        self._beside, self._said = self.begin_task(Task(self, doing), work), ""
        self.draw_doing()

    def begin_task(self, task: Task, work: Work) -> Task:
        """Let a thread do *work* for the screen of *task*: this one, or one that it opened."""
        assert self.subject is not None
        return self._reader.begin(task, self.subject, work)

    def _abandon(self) -> None:
        for task in (self._awaited, self._beside):
            if task is not None:
                task.abandon()
        self._awaited = self._beside = None

    @on(TaskMoved)
    def _task_moved(self, message: TaskMoved) -> None:
        if message.task in (self._awaited, self._beside):
            if isinstance(message.found, Minimap):
                self.show_map(message.found)
            else:
                message.task.reached = message.found
                self.draw_doing()

    def show_map(self, cells: Minimap) -> None:
        """More is known of where two sources differ."""

    def task_failed(self, task: Task, error: BreakglassError) -> None:
        if task in (self._awaited, self._beside):
            self._say(str(error))
            if not self._pairs.window.pairs:
                empty = bounded(str(error), SENTENCE_LENGTH)
                self._pairs.set_window(self._pairs.window, empty=empty)
            self.draw()

    def task_ended(self, task: Task) -> None:
        if task is self._awaited:
            self._awaited = None
        elif task is self._beside:
            self._beside = None
        self.draw_doing()

    # What is said.

    def _say(self, text: str) -> None:
        """Show *text* until something else is done."""
        self._said = text
        self.draw_doing()

    def draw_doing(self) -> None:
        """What is being done, else what was said, else what the cursor is on."""
        task, current = self._awaited or self._beside, self._pairs.current
        told, role = bounded(self._said, SENTENCE_LENGTH), Role.UNKNOWN
        if task is not None:
            reached = "" if task.reached is None else f": at offset {task.reached:,}"
            told = f"{bounded(task.doing, SENTENCE_LENGTH)}{reached}. Esc stops it."
            role = Role.RUNNING
        style = role_style(self.app, role)
        if not told and current is not None:
            told, style = bounded(self.about(current), SENTENCE_LENGTH), role_style(self.app, None)
        self.query_one("#status", StyledLines).tell(Text(f" {told}", style))
