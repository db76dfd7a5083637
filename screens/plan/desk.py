"""Where the draft lies: one thing after the other is done to it, each in a thread.

What is asked while something else is being done waits its turn, so that quick keys are never
lost and never work on an older plan than they mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from breakglass.screens.plan.messages import DraftChanged, DraftRefused
from breakglass.services.errors import BreakglassError, UsageError

if TYPE_CHECKING:
    from textual.message import Message
    from textual.screen import Screen

    from breakglass.screens.plan.view import PlanView
    from breakglass.services.recovery.plan.draft import Draft

Job = Callable[["Draft | None"], "Message"]
"""Done in a thread with the draft as it is then; what it returns is posted to the screen."""


class Desk:
    """Keeps the draft of *screen*, which hands each answer to `ended`."""

    def __init__(self, screen: Screen[Any]) -> None:
        self._screen = screen
        self._waiting: deque[Job] = deque()
        self._busy = False
        self._then: Callable[[], None] | None = None
        self.view: PlanView | None = None

    @property
    def busy(self) -> bool:
        return self._busy

    def change(self, act: Callable[[Draft], tuple[Draft, str]]) -> None:
        self.begin(lambda draft: act(_required(draft)))

    def begin(self, act: Callable[[Draft | None], tuple[Draft, str]]) -> None:
        def job(draft: Draft | None) -> Message:
            from breakglass.screens.plan.viewing import view_of

            after, said = act(draft)
            return DraftChanged(view_of(after), said)

        self.ask(job)

    def ask(self, job: Job) -> None:
        self._waiting.append(job)
        self._next()

    def when_done(self, then: Callable[[], None]) -> None:
        """Call *then* once all that was asked before is done; never if some of it cannot be."""
        self._then = then
        self._go_on()

    def ended(self, view: PlanView | None = None) -> None:
        """Take what came of the last job, and do the next; without *view* it was not done."""
        if view is None:
            self._then = None
        else:
            self.view = view
        self._busy = False
        self._next()
        self._go_on()

    def _go_on(self) -> None:
        if self._then is not None and not self._busy:
            then, self._then = self._then, None
            self._screen.call_later(then)

    def _next(self) -> None:
        if self._busy or not self._waiting:
            return
        self._busy = True
        job, draft = self._waiting.popleft(), None if self.view is None else self.view.draft
        self._screen.run_worker(
            lambda: self._do(job, draft), group="plan", thread=True, exit_on_error=False
        )

    def _do(self, job: Job, draft: Draft | None) -> None:
        """In a thread: one message in any case."""
        try:
            answer = job(draft)
        except BreakglassError as error:
            answer = DraftRefused(error)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            told = f"{type(error).__name__}: {error}"
            answer = DraftRefused(UsageError(f"This could not be done ({told}): please report it."))
        self._screen.post_message(answer)


def _required(draft: Draft | None) -> Draft:
    if draft is None:
        raise UsageError("There is no plan yet: make one (p) or open one (o).")
    return draft
