"""Reads two replicas for the screen: one connection, a thread for each task, messages back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from breakglass.screens.context import Context
from breakglass.screens.diff.messages import (
    ComparisonCounted,
    ComparisonFailed,
    ComparisonProgress,
    ComparisonRead,
    ComparisonSearched,
    RecordRead,
    TaskEnded,
)
from breakglass.screens.diff.task import Task
from breakglass.screens.unforeseen import as_ours
from breakglass.services.divergence.comparison import Comparison
from breakglass.services.divergence.content import DETAIL
from breakglass.services.divergence.hunks import HunkTotals
from breakglass.services.divergence.pages import page_before, page_from
from breakglass.services.divergence.replicas import Facing, comparison_of
from breakglass.services.divergence.search import count, next_difference, previous_difference
from breakglass.services.divergence.source import Abandoned, Reading
from breakglass.services.divergence.window import Window, around
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until

if TYPE_CHECKING:
    from textual.screen import Screen

DESCRIBE_SECONDS = 10.0
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
    """Compare replicas by the session's own access.

    Raises:
        Unreachable: no bootstrap server answers.
    """
    with context.reading() as client:
        deadline = Deadline.after(DESCRIBE_SECONDS)
        until(deadline, lambda: client.describe(deadline))
        yield lambda facing: comparison_of(facing, client.sender)


class Reader(Generic[T]):
    """Begins tasks for screens, which are told of each what it found and that it ended."""

    def __init__(self, connect: ConnectAny[T]) -> None:
        self._connect = connect
        self._open = ExitStack()
        self._compare: CompareAny[T] | None = None
        self._lock = threading.Lock()
        """Held while connecting: tasks may begin side by side."""
        self._threads = ThreadPoolExecutor(THREADS, "diff")
        """Our own, so that a hung broker never takes those that refresh the console."""
        self._closed = False

    def around(self, screen: Screen[Any], facing: T, offset: int) -> Task:
        """Read about *offset*; a `ComparisonRead` tells."""

        def work(comparison: Comparison, task: Task) -> None:
            window = around(comparison, offset, Reading(go_on=task.go_on))
            task.tell(ComparisonRead(task, window, offset))

        return self._begin(Task(screen, f"Reading about offset {offset:,}"), facing, work)

    def below(self, screen: Screen[Any], facing: T, window: Window) -> Task:
        """Read on where *window* ends."""

        def work(comparison: Comparison, task: Task) -> None:
            page = page_from(comparison, window.end, Reading(go_on=task.go_on))
            task.tell(ComparisonRead(task, window.below(page), None))

        return self._begin(Task(screen, f"Reading from offset {window.end:,} on"), facing, work)

    def above(self, screen: Screen[Any], facing: T, window: Window) -> Task:
        """Read what lies before *window*."""

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
        """In a thread: what the task tells, and one word at the end in any case."""
        try:
            task.go_on()
            comparison = self._connected()(facing)
            task.go_on()
            work(comparison, task)
        except Abandoned:
            pass
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen tells it
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
