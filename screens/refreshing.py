"""Refreshing: one reader at a time, in a thread; late answers of an older one are dropped.

A refresh never overlaps another, and a mutation pauses them: what is read while leaders change
would be shown as if it were true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from breakglass.screens.context import NEVER
from breakglass.screens.messages import ClusterRead, ReadEnded, ReadFailed
from breakglass.services.errors import BreakglassError, ClusterError
from breakglass.services.extras import in_vain
from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode
    from textual.timer import Timer

    from breakglass.screens.context import Context
    from breakglass.services.incident.incident import Incident


T = TypeVar("T")

REPORT = "please report it"


def in_thread(
    shown: DOMNode, group: str, read: Callable[[], T], then: Callable[[T], object]
) -> None:
    """Let *read* be done in a thread; *then* shows what it found, by a message to *shown*."""
    shown.run_worker(
        lambda: shown.call_later(then, read()), group=group, thread=True, exit_on_error=False
    )


def found_or_why(read: Callable[[], T], failed: str) -> T | Unknown:
    """What *read* finds, or why it finds nothing: a thread ends here, the screen shows it."""
    try:
        return read()
    except Exception as error:  # noqa: BLE001 -- whatever it is
        return Unknown(in_words(error, failed))


def in_words(error: Exception, failed: str) -> str:
    """What *error* says; one that nobody expected says that *failed*, and how."""
    if (ours := _known(error)) is not None:
        return str(ours)
    return f"{failed} ({type(error).__name__}: {error})"


def as_ours(error: Exception, failed: str, then: str = REPORT) -> BreakglassError:
    """*error*, or for one that nobody expected that *failed*; *then* is what the operator does."""
    if (ours := _known(error)) is not None:
        return ours
    return ClusterError(f"{in_words(error, failed)}: {then}")


def of_step(error: Exception, changed: str) -> BreakglassError:
    """*error* of a guarded step; *changed* is a word for what the step changes."""
    look = f"look at the journal and at the {changed}, and {REPORT}"
    return as_ours(error, "this step ended unexpectedly", look)


def _known(error: Exception) -> BreakglassError | None:
    return error if isinstance(error, BreakglassError) else in_vain(error)


class Refresher:
    """Reads the cluster for an app, which gets `ClusterRead`, `ReadFailed` and `ReadEnded`."""

    def __init__(self, app: App[Any], context: Context) -> None:
        self._app, self._context = app, context
        self._generation = 0
        """Of the refresh whose answers count; reports of others are dropped."""
        self._dated = -1
        """The refresh whose metadata is shown."""
        self._wanted = False
        """Everything is to be read again as soon as that can be."""
        self._timer: Timer | None = None

    def ask(self) -> None:
        """Read everything again, now or as soon as the refresh under way ends."""
        self._wanted = True
        self._begin()

    def pause(self) -> None:
        """Begin no refresh until `resume`; reports of the refresh under way are dropped."""
        self._context.known.paused = True
        self._generation += 1
        self._stop_timer()

    def resume(self) -> None:
        """Read again, everything: a mutation has ended."""
        self._context.known.paused = False
        self.ask()

    def set_interval(self, seconds: float) -> None:
        self._context.known.interval = seconds
        self._schedule()

    def accept(self, message: ClusterRead | ReadFailed) -> bool:
        """Take what a refresh reported; False if that refresh no longer counts."""
        if message.generation != self._generation:
            return False
        known = self._context.known
        if isinstance(message, ReadFailed):
            known.failure = str(message.error)
        else:
            known.incident, known.failure = message.incident, ""
            known.observations = message.incident.observations
            known.unwritten = message.incident.unwritten
            if self._dated != message.generation:
                # What a refresh reports later is more evidence beside the same metadata: the age of
                # what is shown goes by that.
                self._dated = message.generation
                known.read_at = self._context.clock()
        return True

    def ended(self) -> None:
        self._context.known.reading = False
        if self._wanted:
            self._begin()
        else:
            self._schedule()

    def _schedule(self) -> None:
        self._stop_timer()
        known = self._context.known
        if known.interval != NEVER and not known.paused and not known.reading:
            self._timer = self._app.set_timer(known.interval, self._begin)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _begin(self) -> None:
        known = self._context.known
        if known.paused or known.reading:
            return
        self._stop_timer()
        self._generation += 1
        known.reading = True
        generation, before = self._generation, known.incident
        everything, self._wanted = self._wanted, False
        self._app.run_worker(
            lambda: self._read(generation, before, everything),
            group="refresh",
            thread=True,
            exit_on_error=False,
        )

    def _read(self, generation: int, before: Incident | None, everything: bool) -> None:
        """In a thread: each step as a message, and one at the end in any case."""
        health = self._context.health
        try:
            steps = self._context.watch.read(before, everything=everything)
            for number, incident in enumerate(steps):
                if number == 0 and generation == self._generation:
                    health.seen(incident.snapshot)
                self._app.post_message(ClusterRead(generation, incident))
        except BreakglassError as error:
            health.missed(str(error))
            self._app.post_message(ReadFailed(generation, error))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            unreadable = as_ours(error, "the cluster's answers cannot be read")
            self._app.post_message(ReadFailed(generation, unreadable))
        finally:
            self._app.post_message(ReadEnded())
