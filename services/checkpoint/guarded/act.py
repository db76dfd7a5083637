"""What is done to checkpoints under guard: frozen with its evidence, agreed to, read again, done.

Whoever shows it asks for the phrase, and carries nothing out where `changes` finds any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from services.errors import BreakglassError, OutcomeUnknown, StorageError, Unreachable
from services.guard.journal import Journal
from services.model import TopicPartition

if TYPE_CHECKING:
    from services.kafka.read_client import ReadClient
    from services.session import Power

UNSURE = (OutcomeUnknown, Unreachable, StorageError)
"""Errors after which nobody knows whether what was sent has happened."""


class TargetResult(StrEnum):
    """What came of one partition."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Frozen:
    """What is agreed to. Two are equal where the phrase for one is a consent to the other."""

    cluster_id: str
    phrase: str
    """What has to be typed: it names the target and its price."""
    facts: tuple[tuple[str, str], ...]
    """Label and sentence: the evidence. When one changes, nothing is done."""
    targets: tuple[str, ...]
    """The partitions, by the names they are shown with."""
    remarks: tuple[str, ...] = field(default=(), compare=False)
    """What else is to be known, and may change from one look to the next."""
    plan: Any = field(default=None, compare=False)
    """What the act itself needs."""


def changes(before: Frozen, after: Frozen) -> tuple[str, ...]:
    """Why a consent to *before* is none to *after*; empty where it is."""
    was, now = dict(before.facts), dict(after.facts)
    told = [
        f"{label}: it was {was.get(label, 'not there')}, it is {now.get(label, 'gone')}"
        for label in dict.fromkeys([*was, *now])
        if was.get(label) != now.get(label)
    ]
    if not told and before != after:
        told.append("other partitions, or another cluster, than were agreed to")
    return tuple(told)


@dataclass(frozen=True, slots=True)
class ActStep:
    """The act has come so far."""

    told: str


@dataclass(frozen=True, slots=True)
class Underway:
    """How far the step under way is; the next one takes its place."""

    told: str


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """What came of one of the targets."""

    target: str
    result: TargetResult
    told: str


Event: TypeAlias = ActStep | Underway | TargetOutcome
Tell: TypeAlias = Callable[[Event], None]


class Act(Protocol):
    """One thing to be done. All of it happens in a thread."""

    def freeze(self, client: ReadClient) -> Frozen:
        """What would be done now. Raises BreakglassError where it cannot be."""

    def carry_out(self, power: Power, frozen: Frozen, tell: Tell) -> str:
        """Do what was agreed to; returns how it ended, in words.

        Raises:
            OutcomeUnknown, Unreachable, StorageError: it may or may not have happened.
            BreakglassError: it failed, or was refused.
        """

    def follow(self, frozen: Frozen, tell: Tell) -> str:
        """Do what is left and changes no cluster; returns how that ended, or nothing."""


def result_of(error: BreakglassError) -> TargetResult:
    """What an error says of what was under way when it came."""
    return TargetResult.UNKNOWN if isinstance(error, UNSURE) else TargetResult.FAILED


@contextmanager
def journalled(frozen: Frozen, folder: Path | None, tell: Tell) -> Iterator[Journal]:
    """A journal with the consent in it, which is brought to its end whatever happens.

    Raises:
        AlreadyRunning: something else changes the cluster from here: this is not done.
        StorageError: it cannot be written.
    """
    with Journal.open(frozen.cluster_id, folder) as journal:
        journal.consent(frozen.phrase)
        tell(ActStep(f"journal: {journal.path}"))
        try:
            yield journal
        except BreakglassError as error:
            journal.finish(str(result_of(error)), reason=str(error))
            raise
        journal.finish("succeeded")


@contextmanager
def announced(
    journal: Journal,
    step: str,
    items: Mapping[TopicPartition, Mapping[str, Any]],
    tell: Tell,
    **details: Any,
) -> Iterator[None]:
    """Write *step* down before it is done, and what came of it; *tell* hears it by partition."""
    request = journal.request(step, items, **details)
    try:
        yield
    except BreakglassError as error:
        result = result_of(error)
        journal.outcome(request, {one: {"result": result, "reason": str(error)} for one in items})
        for one in items:
            tell(TargetOutcome(str(one), result, str(error)))
        raise
    journal.outcome(request, {one: {"result": TargetResult.DONE} for one in items})
