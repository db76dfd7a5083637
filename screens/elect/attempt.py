"""The thread of a guarded undertaking: each step in turn, told by messages, ended by events.

It never touches a widget. Whatever happens in it, the app hears that a mutation has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from screens.context import Context
from screens.elect.guarded_action import Fresh, Undertaking
from screens.elect.messages import (
    AftermathTold,
    AnswersAwaited,
    ElectionTold,
    LadderMoved,
    StepFailed,
    SubjectFrozen,
    UnknownsAnswered,
)
from screens.elect.rows import rows_of
from screens.messages import MutationEnded
from screens.unforeseen import of_step
from services.errors import BreakglassError
from services.recovery.execution.target import PartitionOutcome
from services.recovery.guarded.aftermath import look_after
from services.recovery.guarded.check_again import check_again, settled_by
from services.recovery.guarded.events import Event, OutcomesTold
from services.recovery.guarded.ladder_watch import watch_ladder
from services.recovery.guarded.rescue_choice import RescueChoice

if TYPE_CHECKING:
    from textual.message import Message

    from services.kafka.read_client import ReadClient
    from services.model import TopicPartition
    from services.recovery.guarded.subject import ElectionSubject
    from services.session import Power

T = TypeVar("T")

LEFT_OUT = "left out by you"


@dataclass
class ElectionAttempt:
    """One way through the steps; another one begins when something changed."""

    number: int
    context: Context
    undertaking: Undertaking
    post: Callable[[Message], object]
    """To the screen."""
    post_app: Callable[[Message], object]
    stop_asked: threading.Event = field(default_factory=threading.Event)
    """End after the request under way; before anything was sent: begin nothing."""
    left: threading.Event = field(default_factory=threading.Event)
    """The screen is gone: nobody looks any more."""
    _looking: ReadClient | None = field(default=None, init=False)
    """Reads everything again before anything is sent."""
    _outcomes: list[PartitionOutcome] = field(default_factory=list, init=False)
    """Told so far."""

    def freeze(self, left_out: Collection[TopicPartition] = ()) -> None:
        """Find out what is to be carried out, and its price, *left_out* apart."""
        self._bounded(lambda: self._freeze(left_out))

    def leave_out(self, subject: ElectionSubject, partitions: Collection[TopicPartition]) -> None:
        """*subject* without the elections of *partitions*."""
        self._bounded(lambda: self._frozen(subject.without(partitions, LEFT_OUT)))

    def give_up(self) -> None:
        """Begin nothing, and end the look before it at once."""
        self.stop_asked.set()
        looking = self._looking
        if looking is not None:
            looking.close()

    def carry_out(
        self, power: Power, subject: ElectionSubject, phrases: Sequence[str], rescue: RescueChoice
    ) -> None:
        """Read *subject* again, elect if nothing changed, then watch what was elected.

        The app was told that a mutation has begun.
        """
        try:
            self._bounded(lambda: self._carry_out(power, subject, phrases, rescue))
        finally:
            self._send(self.post_app, MutationEnded())
        if self._outcomes:
            self._bounded(lambda: self._watch(subject, self._outcomes))

    def check_again(self, journal: Path, unknown: Sequence[PartitionOutcome]) -> None:
        """Ask the cluster what became of the *unknown* outcomes in *journal*."""
        self._bounded(lambda: self._check_again(journal, unknown))

    def _freeze(self, left_out: Collection[TopicPartition]) -> None:
        with self.context.reading() as client:
            subject = self.undertaking.freeze(client, self._waits, self._stop)
        self._frozen(subject.without(left_out, LEFT_OUT) if left_out else subject)

    def _frozen(
        self, subject: ElectionSubject, changed: Mapping[TopicPartition, str] | None = None
    ) -> None:
        """Tell *subject* once it is counted, so that showing it takes no time."""
        rows = rows_of(subject.summed())
        self._tell_screen(SubjectFrozen(self.number, subject, rows, changed))

    def _carry_out(
        self, power: Power, subject: ElectionSubject, phrases: Sequence[str], rescue: RescueChoice
    ) -> None:
        fresh = self._look_again(subject)
        if fresh is None or self._stop():
            self._tell_screen(StepFailed(self.number, None))
        elif fresh.changed:
            self._frozen(fresh.subject, fresh.changed)
        else:
            targets = [one.target for one in fresh.subject.wanted]
            self.context.watch.agreed({one.partition: one.designee for one in targets})
            self.undertaking.carry_out(
                power, fresh.subject, phrases, rescue, self._tell, self._stop
            )

    def _look_again(self, subject: ElectionSubject) -> Fresh | None:
        """*subject* as it is now; None where that was given up."""
        with self.context.reading() as client:
            self._looking = client
            try:
                return self.undertaking.again(client, subject, self._waits, self._stop)
            except BreakglassError:
                if self._stop():
                    return None
                raise
            finally:
                self._looking = None

    def _watch(self, subject: ElectionSubject, outcomes: Sequence[PartitionOutcome]) -> None:
        with self.context.reading() as client:
            found = look_after(client, outcomes, subject.wanted)
            self._tell_screen(AftermathTold(self.number, found))
            for moved in watch_ladder(client, outcomes, self._gone):
                self._tell_screen(LadderMoved(self.number, moved))

    def _check_again(self, journal: Path, unknown: Sequence[PartitionOutcome]) -> None:
        with self.context.reading() as client:
            found = check_again(client, journal, folder=self.context.state_folder)
            settled = settled_by(found, unknown)
            self._tell_screen(UnknownsAnswered(self.number, found, settled))
            for moved in watch_ladder(client, settled, self._gone):
                self._tell_screen(LadderMoved(self.number, moved))

    def _tell(self, event: Event) -> None:
        if isinstance(event, OutcomesTold):
            self._outcomes += event.outcomes
        self._tell_screen(ElectionTold(self.number, event))

    def _waits(self, waiting: str) -> None:
        self._tell_screen(AnswersAwaited(self.number, waiting))

    def _stop(self) -> bool:
        return self._gone() or self.stop_asked.is_set()

    def _gone(self) -> bool:
        return self.left.is_set() or self.context.stopping.is_set()

    def _tell_screen(self, message: Message) -> None:
        self._send(self.post, message)

    def _send(self, post: Callable[[Message], object], message: Message) -> None:
        """Post *message*; once the app is gone nobody looks any more, and nothing new begins."""
        try:
            post(message)
        except RuntimeError:
            self.left.set()

    def _bounded(self, step: Callable[[], T]) -> T | None:
        """What *step* returns; an error of it becomes a message."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen tells it
            self._tell_screen(StepFailed(self.number, of_step(error, "cluster")))
        return None
