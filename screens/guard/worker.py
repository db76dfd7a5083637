"""The thread of a guarded act: freeze; after consent carry it out, and do what is left.

The thread never touches a widget. Whatever happens, the app hears that a mutation has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from textual.message import Message

from breakglass.screens.context import Context
from breakglass.screens.messages import MutationEnded
from breakglass.screens.refreshing import of_step
from breakglass.services.guard.act import (
    Act,
    ActEvent,
    Change,
    ConsentOutdated,
    Ending,
    Front,
    Frozen,
    GuardedRun,
    Underway,
)

if TYPE_CHECKING:
    from breakglass.services.errors import BreakglassError
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.session import Power


@dataclass(eq=False)
class GuardMessage(Message):
    """A report of a worker; the page drops reports of an older *attempt*."""

    attempt: int


@dataclass(eq=False)
class ActFrozen(GuardMessage):
    """What would be done; with *changed*, what was agreed to is no longer so."""

    frozen: Frozen[Any]
    changed: tuple[Change, ...] = ()


@dataclass(eq=False)
class ActReported(GuardMessage):
    """The act has come to *event*."""

    event: ActEvent

    def can_replace(self, message: Message) -> bool:
        both = isinstance(message, ActReported) and isinstance(self.event, Underway)
        return both and isinstance(message.event, Underway)  # type: ignore[attr-defined]


@dataclass(eq=False)
class ActFailed(GuardMessage):
    """The act ended with an error; None: it was given up before anything was done."""

    error: BreakglassError | None
    begun: bool
    """Something may have been done."""


@dataclass(eq=False)
class ActEnded(GuardMessage):
    """The act has ended by itself."""

    ending: Ending


@dataclass(eq=False)
class FollowEnded(GuardMessage):
    """What came after the act has ended, too."""

    text: str
    good: bool


T = TypeVar("T")


@dataclass
class GuardedWorker(Generic[T]):
    """One way through an act; another one begins when something changed."""

    number: int
    context: Context
    act: Act[T]
    post: Callable[[Message], object]
    """To the page."""
    post_app: Callable[[Message], object]
    changes: str = "cluster"
    """What an error that nobody expected says to look at."""
    stop_asked: threading.Event = field(default_factory=threading.Event)
    """End after the request under way; before anything was sent: begin nothing."""
    left: threading.Event = field(default_factory=threading.Event)
    """The page is gone: nobody looks any more."""
    _looking: ReadClient | None = field(default=None, init=False)
    """Reads for the look that is under way."""
    _begun: bool = field(default=False, init=False)
    """Something may have been done."""

    def freeze(self) -> None:
        self.guarded(lambda: self.show(GuardedRun(self.act, self.front).freeze()))

    def show(self, frozen: Frozen[T], changed: tuple[Change, ...] = ()) -> None:
        """Report what would be done; *changed* is no longer as it was agreed to."""
        self.report(ActFrozen(self.number, frozen, changed))

    def carry_out(self, power: Power, agreed: Frozen[T], phrases: Sequence[str]) -> None:
        """Do what was *agreed* to if it is still so, then what is left and changes nothing.

        The app already knows that a mutation has begun.
        """
        ending: Ending | None = None
        run = GuardedRun(self.act, self.front)
        try:
            ending = run.carry_out(power, agreed, phrases, begin=self.began)
        except ConsentOutdated as outdated:
            self.show(outdated.fresh, outdated.changed)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the page shows it
            self.fail(error)
        else:
            self.report(ActEnded(self.number, ending))
        finally:
            self._post(self.post_app, MutationEnded())
        if ending is not None:
            self.follow(run, agreed, ending)

    def follow(self, run: GuardedRun[T], agreed: Frozen[T], ending: Ending) -> None:
        try:
            text = run.follow(agreed, ending)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the page shows it
            self.report(FollowEnded(self.number, str(of_step(error, self.changes)), good=False))
        else:
            self.report(FollowEnded(self.number, text, good=True))

    def give_up(self) -> None:
        """Begin nothing, and end the look before it at once."""
        self.stop_asked.set()
        looking = self._looking
        if looking is not None:
            looking.close()

    @property
    def front(self) -> Front:
        context = self.context
        return Front(context.access, self.hear, self.stopping, context.state_folder, self._reading)

    def hear(self, event: ActEvent) -> None:
        self.report(ActReported(self.number, event))

    def began(self, fresh: Frozen[T]) -> None:  # noqa: ARG002
        """The second look found nothing changed, and the act on *fresh* begins."""
        self._begun = True

    def stopping(self) -> bool:
        return self.gone() or self.stop_asked.is_set()

    def gone(self) -> bool:
        """Whether nobody looks any more."""
        return self.left.is_set() or self.context.stopping.is_set()

    def report(self, message: Message) -> None:
        self._post(self.post, message)

    def guarded(self, step: Callable[[], object]) -> None:
        """Do *step*; its error becomes a message."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the page shows it
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Report *error*; after a give-up it says nothing more."""
        given_up = self.stopping() and not self._begun
        found = None if given_up else of_step(error, self.changes)
        self.report(ActFailed(self.number, found, self._begun))

    @contextmanager
    def _reading(self) -> Iterator[ReadClient]:
        with self.context.reading() as client:
            self._looking = client
            try:
                yield client
            finally:
                self._looking = None

    def _post(self, post: Callable[[Message], object], message: Message) -> None:
        """Post *message*; once the app is gone nobody looks any more, and nothing new begins."""
        try:
            post(message)
        except RuntimeError:
            self.left.set()
