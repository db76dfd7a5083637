"""Where the draft lies: one thing after the other is done to it, each in a thread.

What is asked while something else is being done waits its turn, so that quick keys are never
lost and never work on an older plan than they mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from breakglass.screens.refreshing import in_thread
from breakglass.services.errors import BreakglassError, UsageError

if TYPE_CHECKING:
    from textual.screen import Screen

    from breakglass.screens.plan import acts as acts
    from breakglass.screens.plan.acts import Done, PlanView
    from breakglass.services.recovery.plan.draft import Draft
else:

    class _Acts:
        """`screens.plan.acts`, which imports the plan: not before a thread does something."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("breakglass.screens.plan.acts"), name)

    acts = _Acts()

T = TypeVar("T")


class DraftChanged(NamedTuple):
    """The plan that is being edited is now as *view* shows it; *said* is what was done."""

    view: PlanView
    said: str


class Desk:
    """Keeps the draft of *screen*, which hears what was *changed* and what was *refused*."""

    def __init__(
        self,
        screen: Screen[Any],
        changed: Callable[[DraftChanged], object],
        refused: Callable[[BreakglassError], object],
    ) -> None:
        self._screen, self.changed, self._refused = screen, changed, refused
        self._waiting: deque[Callable[[Draft | None], Callable[[], object]]] = deque()
        self._busy = False
        self._then: Callable[[], None] | None = None
        self.view: PlanView | None = None

    @property
    def busy(self) -> bool:
        return self._busy

    def change(self, act: Callable[[Draft], Done]) -> None:
        self.begin(lambda draft: act(required(draft)))

    def begin(self, act: Callable[[Draft | None], Done]) -> None:
        self.ask(lambda draft: acts.viewed(act(draft)), self.changed)

    def ask(self, job: Callable[[Draft | None], T], then: Callable[[T], object]) -> None:
        """Do *job* in a thread with the draft as it is then, and *then* what comes of it."""
        self._waiting.append(lambda draft: self._do(job, then, draft))
        self._next()

    def when_done(self, then: Callable[[], None]) -> None:
        """Call *then* once all that was asked before is done; never if some of it cannot be."""
        self._then = then
        self._go_on()

    def _do(
        self, job: Callable[[Draft | None], T], then: Callable[[T], object], draft: Draft | None
    ) -> Callable[[], object]:
        """In a thread: what is to be done on the screen now."""
        try:
            return partial(self._done, then, job(draft))
        except BreakglassError as error:
            return partial(self._done, self._refused, error)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            told = f"This could not be done ({type(error).__name__}: {error}): please report it."
            return partial(self._done, self._refused, UsageError(told))

    def _done(self, then: Callable[[Any], object], found: object) -> None:
        self._busy = False
        if isinstance(found, DraftChanged):
            self.view = found.view
        else:
            self._then = None
        then(found)
        self._next()
        self._go_on()

    def _go_on(self) -> None:
        if self._then is not None and not self._busy:
            then, self._then = self._then, None
            self._screen.call_later(then)

    def _next(self) -> None:
        if self._waiting and not self._busy:
            self._busy = True
            job, draft = self._waiting.popleft(), None if self.view is None else self.view.draft
            in_thread(self._screen, "plan", lambda: job(draft), lambda done: done())


def required(draft: Draft | None) -> Draft:
    """The *draft* that there is. Raises UsageError: there is none."""
    if draft is None:
        raise UsageError("There is no plan yet: make one (p) or open one (o).")
    return draft
