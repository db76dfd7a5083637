"""Reads two replicas for the screen: one connection, a thread for each task, messages back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from textual.message import Message

from breakglass.screens.context import Context
from breakglass.screens.refreshing import as_ours
from breakglass.services import patience
from breakglass.services.divergence.align import Comparison, HunkTotals
from breakglass.services.divergence.entry import DETAIL
from breakglass.services.divergence.pages import (
    Window,
    around,
    count,
    next_difference,
    page_before,
    page_from,
    previous_difference,
)
from breakglass.services.divergence.replicas import Facing, comparison_of
from breakglass.services.divergence.source import Abandoned, Reading
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.deadline import Deadline, until

if TYPE_CHECKING:
    from textual.screen import Screen

    from breakglass.services.divergence.align import Minimap, RecordPair
    from breakglass.services.divergence.source import Extent


SOON_SECONDS = 0.15
"""Seconds after which a task is shown; most are done before anybody could read their name."""


class Task:
    """Known by its identity: reports of another task are dropped."""

    def __init__(self, screen: Screen[Any], doing: str) -> None:
        self.screen = screen
        """Gets what the task finds."""
        self.doing = doing
        """For the screen: ``Searching for the next difference``."""
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        self._abandoned.set()

    def go_on(self) -> None:
        """Asked by the thread now and then; raises Abandoned."""
        if self._abandoned.is_set():
            raise Abandoned

    def tell(self, message: Message) -> None:
        """From the thread to the screen, if that is still there."""
        self.screen.post_message(message)


@dataclass(eq=False)
class ComparisonRead(Message):
    """A stretch of two replicas was read."""

    task: Task
    window: Window
    goal: int | None
    """The offset that was gone to; None: the cursor stays on its record."""


@dataclass(eq=False)
class ComparisonSearched(Message):
    """A search among the records of two replicas has ended without a find."""

    task: Task
    forward: bool


class ComparisonProgress(Message):
    """How far a search or a count has come."""

    def __init__(self, task: Task, offset: int) -> None:
        super().__init__()
        self.task = task
        self.offset = offset

    def can_replace(self, message: Message) -> bool:
        """A newer word on the same task makes an older one needless."""
        return isinstance(message, ComparisonProgress) and message.task is self.task


@dataclass(eq=False)
class ComparisonCounted(Message):
    """All differences of two replicas from an offset on were counted."""

    task: Task
    totals: HunkTotals


@dataclass(eq=False)
class ComparisonFailed(Message):
    """Two replicas cannot be compared now."""

    task: Task
    error: BreakglassError


@dataclass(eq=False)
class SourcesOpened(Message):
    """What is to be looked at was opened: it has the offsets of *extent*."""

    task: Task
    extent: Extent
    notes: Sequence[str] = ()
    """What is to be known of it: bytes that are no part of a backup."""


class MapGrown(Message):
    """More is known of where two sources differ."""

    def __init__(self, task: Task, cells: Minimap) -> None:
        super().__init__()
        self.task = task
        self.cells = cells

    def can_replace(self, message: Message) -> bool:
        """A newer map of the same task makes an older one needless."""
        return isinstance(message, MapGrown) and message.task is self.task


@dataclass(eq=False)
class TaskEnded(Message):
    """The thread of *task* is done, whatever it reported."""

    task: Task


@dataclass(eq=False)
class RecordRead(Message):
    """One record was read from both replicas, as far as it is shown."""

    task: Task
    pair: RecordPair | None
    """None: neither has it any more."""
    decoded: RecordPair | None = None
    """With keys and values as a schema registry tells them; None: they are as they are."""
    note: str = ""
    """By which schemas, or why not."""


THREADS = 2
"""One for the list, one for a count beside it."""

T = TypeVar("T")
"""What is compared: a `Facing`, or whatever else names two sides."""

CompareAny = Callable[[T], Comparison]
ConnectAny = Callable[[], AbstractContextManager[CompareAny[T]]]
Compare = CompareAny[Facing]
Connect = ConnectAny[Facing]
"""Opens a connection, called in a thread; what it gives compares replicas until it is closed."""

Work = Callable[[Comparison, Task], None]


@contextmanager
def connect_to(context: Context) -> Iterator[Compare]:
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
    """Begins tasks for screens; each task reports what it found, and that it ended."""

    def __init__(self, connect: ConnectAny[T]) -> None:
        self._connect = connect
        self._open = ExitStack()
        self._compare: CompareAny[T] | None = None
        self._lock = threading.Lock()
        """Locked while connecting: tasks may begin side by side."""
        self._threads = ThreadPoolExecutor(THREADS, "diff")
        """Our own, so that a hung broker never takes those that refresh the console."""
        self._closed = False

    def around(self, screen: Screen[Any], facing: T, offset: int) -> Task:
        def work(comparison: Comparison, task: Task) -> None:
            window = around(comparison, offset, Reading(go_on=task.go_on))
            task.tell(ComparisonRead(task, window, offset))

        return self._begin(Task(screen, f"Reading around offset {offset:,}"), facing, work)

    def below(self, screen: Screen[Any], facing: T, window: Window) -> Task:
        def work(comparison: Comparison, task: Task) -> None:
            page = page_from(comparison, window.end, Reading(go_on=task.go_on))
            task.tell(ComparisonRead(task, window.below(page), None))

        return self._begin(Task(screen, f"Reading from offset {window.end:,}"), facing, work)

    def above(self, screen: Screen[Any], facing: T, window: Window) -> Task:
        def work(comparison: Comparison, task: Task) -> None:
            page = page_before(comparison, window.start, Reading(go_on=task.go_on))
            task.tell(ComparisonRead(task, window.above(page), None))

        return self._begin(Task(screen, f"Reading before offset {window.start:,}"), facing, work)

    def search(self, screen: Screen[Any], facing: T, offset: int, *, forward: bool) -> Task:
        """Look for the next or the previous difference and read about it.

        A `ComparisonRead` tells, or a `ComparisonSearched` where there is none.
        """

        def work(comparison: Comparison, task: Task) -> None:
            reading = Reading(go_on=task.go_on)
            search = next_difference if forward else previous_difference
            found = search(comparison, offset, reading, progress_of(task))
            if found is None:
                task.tell(ComparisonSearched(task, forward))
            else:
                task.tell(ComparisonRead(task, around(comparison, found, reading), found))

        where = "next" if forward else "previous"
        return self._begin(Task(screen, f"Searching for the {where} difference"), facing, work)

    def count(self, screen: Screen[Any], facing: T, start: int) -> Task:
        """Count everything from *start* on; a `ComparisonCounted` tells."""

        def work(comparison: Comparison, task: Task) -> None:
            told = progress_of(task)

            def progress(totals: HunkTotals) -> None:
                told(totals.counted_to)

            totals = count(comparison, start, Reading(go_on=task.go_on), progress)
            task.tell(ComparisonCounted(task, totals))

        return self._begin(Task(screen, "Counting the differences"), facing, work)

    def record(self, screen: Screen[Any], facing: T, offset: int) -> Task:
        """Read the records at *offset* as far as one record is shown; a `RecordRead` tells."""

        def work(comparison: Comparison, task: Task) -> None:
            reading = Reading(keep=DETAIL, go_on=task.go_on)
            pairs = comparison.pairs(offset, offset + 1, reading)
            task.tell(RecordRead(task, next(pairs, None)))

        return self._begin(Task(screen, f"Reading the record at offset {offset:,}"), facing, work)

    def close(self) -> None:
        """End the connection, and with it every wait of a thread for it."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._open.close()

    def _begin(self, task: Task, facing: T, work: Work) -> Task:
        """Let *work* be done as soon as one of our threads is free; what was given up frees it."""
        context = copy_context()
        self._threads.submit(context.run, self._run, task, facing, work)
        return task

    def _run(self, task: Task, facing: T, work: Work) -> None:
        """In a thread: report what the task finds, and in any case that it ended."""
        try:
            task.go_on()
            comparison = self._connected()(facing)
            task.go_on()
            work(comparison, task)
        except Abandoned:
            pass
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            task.tell(ComparisonFailed(task, as_ours(error, "these records cannot be compared")))
        finally:
            task.tell(TaskEnded(task))

    def _connected(self) -> CompareAny[T]:
        with self._lock:
            if self._compare is None and not self._closed:
                self._compare = self._open.enter_context(self._connect())
            if self._compare is None or self._closed:
                self._open.close()
                raise Abandoned
            return self._compare


ReplicaReader = Reader[Facing]


def progress_of(task: Task) -> Callable[[int], None]:
    """Tells the screen of *task* how far it has come."""
    return lambda offset: task.tell(ComparisonProgress(task, offset))
