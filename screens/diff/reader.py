"""Reads records for a screen: one connection, a thread for each task, and its reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from typing import Generic, TypeVar

from textual.message import Message

from breakglass.screens.context import Context
from breakglass.screens.page import Page
from breakglass.screens.refreshing import as_ours
from breakglass.services import patience
from breakglass.services.divergence.align import Comparison, Minimap
from breakglass.services.divergence.replica_source import Facing, comparison_of
from breakglass.services.divergence.source import Abandoned, Reading
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.deadline import Deadline, until

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
