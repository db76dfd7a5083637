"""What a guarded step tells its screen from its thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from services.errors import BreakglassError
from services.model import TopicPartition

if TYPE_CHECKING:
    from screens.elect.rows import ElectionRow
    from services.recovery.execution.target import PartitionOutcome
    from services.recovery.guarded.aftermath import Aftermath
    from services.recovery.guarded.check_again import CheckedAgain
    from services.recovery.guarded.events import Event
    from services.recovery.guarded.subject import ElectionSubject


@dataclass(eq=False)
class StepMessage(Message):
    """Something that a guarded step tells from its thread; one of an older *attempt* is dropped."""

    attempt: int


class AnswersAwaited(StepMessage):
    """The step waits for brokers: *waiting* says for whom, and why."""

    def __init__(self, attempt: int, waiting: str) -> None:
        super().__init__(attempt)
        self.waiting = waiting

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, AnswersAwaited)


class SubjectFrozen(StepMessage):
    """What is to be elected, with its price; *changed* says of what was agreed to and why."""

    def __init__(
        self,
        attempt: int,
        subject: ElectionSubject,
        rows: tuple[ElectionRow, ...],
        changed: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        super().__init__(attempt)
        self.subject = subject
        self.rows = rows
        self.changed = changed or {}


class ElectionTold(StepMessage):
    """A guarded election has come to *event*."""

    def __init__(self, attempt: int, event: Event) -> None:
        super().__init__(attempt)
        self.event = event


class LadderMoved(StepMessage):
    """Elected partitions stand on other rungs than before."""

    def __init__(self, attempt: int, outcomes: Sequence[PartitionOutcome]) -> None:
        super().__init__(attempt)
        self.outcomes = tuple(outcomes)


class AftermathTold(StepMessage):
    """What the elections have left behind."""

    def __init__(self, attempt: int, aftermath: Aftermath) -> None:
        super().__init__(attempt)
        self.aftermath = aftermath


class UnknownsAnswered(StepMessage):
    """What the cluster says of steps whose outcome was unknown."""

    def __init__(
        self, attempt: int, found: CheckedAgain, settled: Sequence[PartitionOutcome]
    ) -> None:
        super().__init__(attempt)
        self.found = found
        self.settled = tuple(settled)
        """Of those that were unknown: what came of them."""


class StepFailed(StepMessage):
    """The step ended with an error, or without one: it was given up before anything was sent."""

    def __init__(self, attempt: int, error: BreakglassError | None) -> None:
        super().__init__(attempt)
        self.error = error
