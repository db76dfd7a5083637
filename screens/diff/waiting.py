"""What a screen of records waits for, and what it was told last: one line above the keys."""

from __future__ import annotations

from breakglass.screens.diff.task import Task
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
        """Something is being read."""
        return self._awaited is not None or self._beside is not None

    @property
    def of_list(self) -> bool:
        """The list waits for something."""
        return self._awaited is not None

    @property
    def of_beside(self) -> bool:
        return self._beside is not None

    def is_awaited(self, task: Task) -> bool:
        return task is self._awaited

    def is_beside(self, task: Task) -> bool:
        return task is self._beside

    def concerns(self, task: Task) -> bool:
        """*task* is one of the two that count."""
        return task in (self._awaited, self._beside)

    def begin(self, task: Task) -> None:
        """Wait for *task*, and for none before it."""
        if self._awaited is not None:
            self._awaited.abandon()
        self._awaited, self._reached, self._said = task, None, ""

    def begin_beside(self, task: Task) -> None:
        """Let *task* go on beside the list, in place of one before it."""
        if self._beside is not None:
            self._beside.abandon()
        self._beside, self._reached, self._said = task, None, ""

    def reached(self, offset: int) -> None:
        self._reached = offset

    def end(self, task: Task) -> None:
        """*task* is done."""
        if task is self._awaited:
            self._awaited = self._reached = None
        elif task is self._beside:
            self._beside = self._reached = None

    def abandon(self) -> None:
        """Give up whatever is being read."""
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
            return f"{doing}{reached}. Esc ends it.", Role.RUNNING
        return bounded(self._said, SENTENCE_LENGTH), Role.UNKNOWN
