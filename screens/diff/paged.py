"""A page with a list of pairs that reads on where the cursor goes, and says what is being read."""

from __future__ import annotations

from dataclasses import replace

from textual import on

from breakglass.screens.context import Context
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.diff.reader import (
    SOON_SECONDS,
    ComparisonFailed,
    ComparisonProgress,
    Task,
    TaskEnded,
)
from breakglass.screens.page import Page
from breakglass.services.divergence.pages import Window
from breakglass.services.divergence.source import Extent
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role

SENTENCE_LENGTH = 400


class Waiting:
    """A task that the list waits for, one beside it, and what was said since."""

    def __init__(self) -> None:
        self._awaited: Task | None = None
        self._beside: Task | None = None
        """A count or an export."""
        self._reached: int | None = None
        self._said = ""

    @property
    def busy(self) -> bool:
        return self._awaited is not None or self._beside is not None

    @property
    def of_list(self) -> bool:
        return self._awaited is not None

    @property
    def of_beside(self) -> bool:
        return self._beside is not None

    def is_awaited(self, task: Task) -> bool:
        return task is self._awaited

    def is_beside(self, task: Task) -> bool:
        return task is self._beside

    def concerns(self, task: Task) -> bool:
        return task in (self._awaited, self._beside)

    def begin(self, task: Task) -> None:
        """Wait for *task*, and for none before it."""
        if self._awaited is not None:
            self._awaited.abandon()
        self._awaited, self._reached, self._said = task, None, ""

    def begin_beside(self, task: Task) -> None:
        """Let *task* run beside the list, in place of an earlier task."""
        if self._beside is not None:
            self._beside.abandon()
        self._beside, self._reached, self._said = task, None, ""

    def reached(self, offset: int) -> None:
        self._reached = offset

    def end(self, task: Task) -> None:
        if task is self._awaited:
            self._awaited = self._reached = None
        elif task is self._beside:
            self._beside = self._reached = None

    def abandon(self) -> None:
        for task in (self._awaited, self._beside):
            if task is not None:
                task.abandon()
        self._awaited = self._beside = self._reached = None

    def say(self, text: str) -> None:
        """Show *text* until something else is done; empty: no more."""
        self._said = text

    def told(self) -> tuple[str, Role | None]:
        """What is being done, else what was said; empty where neither is."""
        task = self._awaited or self._beside
        if task is not None:
            reached = "" if self._reached is None else f": at offset {self._reached:,}"
            doing = bounded(task.doing, SENTENCE_LENGTH)
            return f"{doing}{reached}. Esc stops it.", Role.RUNNING
        return bounded(self._said, SENTENCE_LENGTH), Role.UNKNOWN


class PagedPairs(Page):
    """Subclasses have a `PairList`, begin what is read, and draw what is around the list."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._waiting = Waiting()

    @property
    def extent(self) -> Extent | None:
        raise NotImplementedError

    def read_around(self, offset: int) -> Task:
        raise NotImplementedError

    def read_beyond(self, window: Window, *, above: bool) -> Task:
        raise NotImplementedError

    def draw(self) -> None:
        raise NotImplementedError

    def draw_doing(self) -> None:
        """Show what is being read, or the last result."""
        raise NotImplementedError

    @property
    def busy(self) -> bool:
        return self._waiting.busy

    @property
    def _pairs(self) -> PairList:
        return self.query_one(PairList)

    @property
    def _offset(self) -> int:
        current = self._pairs.current
        return self._pairs.window.start if current is None else current.offset

    def action_form(self) -> None:
        manner = self._pairs.manner
        self._pairs.set_manner(replace(manner, form=manner.form.next))
        self.draw()

    def action_end(self, last: bool) -> None:
        extent = self.extent
        if extent is not None:
            self._go(max(extent.start, extent.end - 1) if last else extent.start)

    @on(PairList.EdgeNear)
    def _read_on(self, message: PairList.EdgeNear) -> None:
        """Read more where there is more, unless something is being read."""
        extent, window = self.extent, self._pairs.window
        if extent is None or self._waiting.of_list:
            return
        more = window.start > extent.start if message.top else window.end < extent.end
        if more:
            self._begin(self.read_beyond(window, above=message.top))

    @on(ComparisonProgress)
    def _progressed(self, message: ComparisonProgress) -> None:
        if self._waiting.concerns(message.task):
            self._waiting.reached(message.offset)
            self.draw_doing()

    @on(ComparisonFailed)
    def _failed(self, message: ComparisonFailed) -> None:
        if self._waiting.concerns(message.task):
            self._say(str(message.error))
            if not self._pairs.window.pairs:
                empty = bounded(str(message.error), SENTENCE_LENGTH)
                self._pairs.set_window(self._pairs.window, empty=empty)
            self.draw()

    @on(TaskEnded)
    def _task_ended(self, message: TaskEnded) -> None:
        self._waiting.end(message.task)
        self.draw_doing()

    def _go(self, offset: int) -> None:
        """Put the cursor on *offset*, reading around it where the window does not have it."""
        window = self._pairs.window
        if window.start <= offset < window.end:
            self._pairs.set_window(window, offset)
            self._pairs.look_for_more()
            self.draw()
        elif self.extent is not None:
            self._begin(self.read_around(offset))

    def _begin(self, task: Task) -> None:
        self._waiting.begin(task)
        self.set_timer(SOON_SECONDS, self.draw_doing)

    def _say(self, text: str) -> None:
        self._waiting.say(text)
        self.draw_doing()
