"""A guarded act, and the run that carries it out, for commands and for screens alike.

Each subsystem has its acts: what is agreed to, with its evidence, and what the act reports.
`GuardedRun` is the only way to carry one out: consent, lock, journal, second look, act, result per
item, end. Every change that Breakglass makes to a cluster or to a store passes through it.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from breakglass.services.errors import (
    AlreadyRunning,
    BreakglassError,
    EvidenceChanged,
    OutcomeUnknown,
    ReadOnly,
    Refused,
    StorageError,
    Unreachable,
    UsageError,
)
from breakglass.services.guard.consent import ConsentPhrase, require_phrases
from breakglass.services.guard.journal import Journal
from breakglass.services.model import TopicPartition
from breakglass.services.session import Power

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.session import ReadAccess

T = TypeVar("T")

SUCCEEDED = "succeeded"
PARTLY_FAILED = "partly failed"
HELD = "held"
ACKNOWLEDGED = "acknowledged"
"""How a journal records the end of an act. One that holds something has it still to put back; what
was acknowledged goes on after the act, and may fail.
"""

UNSURE = (OutcomeUnknown, Unreachable, StorageError)
"""Errors that leave open whether the request was carried out."""


class TargetResult(StrEnum):
    """The result of one target."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Frozen(Generic[T]):
    """What is agreed to. Two values are equal where a consent to either covers the other."""

    cluster_id: str
    asked: tuple[ConsentPhrase, ...]
    """The phrases to type; they name the targets and the price. Empty: nothing is to be done."""
    facts: tuple[tuple[str, str], ...] = ()
    """Label and sentence: the evidence."""
    targets: tuple[str, ...] = ()
    """The names of the partitions that the act changes."""
    remarks: tuple[str, ...] = field(default=(), compare=False)
    """What else the operator has to know; it may change between two looks."""
    plan: T = field(default=None, compare=False)  # type: ignore[assignment]
    """What the act itself needs."""
    source: str = ""
    """A digest of what the act writes from, such as the hashes of a backup; empty: of nothing."""


class Change(NamedTuple):
    """A fact or a target that changed since it was agreed to."""

    what: str
    """A label of the facts, or a target."""
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}" if self.what else self.reason


def changes_between(before: Frozen[T], after: Frozen[T]) -> tuple[Change, ...]:
    """Why a consent to *before* does not cover *after*; empty where it does."""
    was, now = dict(before.facts), dict(after.facts)
    found = [
        Change(label, f"it was {was.get(label, 'not there')}, it is {now.get(label, 'gone')}")
        for label in dict.fromkeys([*was, *now])
        if was.get(label) != now.get(label)
    ]
    if not found and before.source != after.source:
        found.append(Change("", "what is to be written from has other bytes than were agreed to"))
    if not found and before != after:
        found.append(Change("", "other partitions, or another cluster, than were agreed to"))
    return tuple(found)


class ActEvent:
    """Something that an act reports while it runs. Acts define further events."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class JournalOpened(ActEvent):
    """The consent is about to be written to the journal at *path*."""

    path: Path


@dataclass(frozen=True, slots=True)
class Armed(ActEvent):
    """A client that can change the cluster exists: the act ends between two requests only."""


@dataclass(frozen=True, slots=True)
class ActStep(ActEvent):
    """The act has reached this step."""

    text: str


@dataclass(frozen=True, slots=True)
class Underway(ActEvent):
    """The progress of the present step; the next report replaces it."""

    text: str


@dataclass(frozen=True, slots=True)
class TargetOutcome(ActEvent):
    """The result of one target."""

    target: str
    result: TargetResult
    text: str


Tell = Callable[[ActEvent], None]
"""Receives each event, in the thread that runs the act."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an act ended."""

    result: str | None = SUCCEEDED
    """As the journal records it; None: it was stopped, and its journal can be resumed."""
    text: str = ""
    value: Any = None
    """What the act returns to its front end."""

    @property
    def whole(self) -> bool:
        """All was done that was agreed to."""
        return self.result in (SUCCEEDED, HELD, ACKNOWLEDGED)


@dataclass(frozen=True, slots=True)
class Front:
    """The front end that an act runs for: how it reads, reports events, and stops."""

    access: ReadAccess | None = None
    """None: the act is about a store, and no cluster."""
    tell: Tell = lambda _: None
    stop: Callable[[], bool] = lambda: False
    """Asked between requests; true ends the act after the request under way."""
    state_folder: Path | None = None
    """The folder of journals and locks; None: the user's state folder."""
    client: Callable[[], AbstractContextManager[ReadClient]] | None = None
    """Makes the reading clients, where the front end keeps track of them itself."""

    def reading(self) -> AbstractContextManager[ReadClient]:
        """A client that can read, closed at the end of the block."""
        if self.client is not None:
            return self.client()
        return self.cluster.reading()

    @property
    def cluster(self) -> ReadAccess:
        """How the act reads the cluster. Raises UsageError where no cluster was named."""
        if self.access is None:
            raise UsageError("this reads a cluster: name it with --bootstrap-server")
        return self.access


@dataclass(frozen=True, slots=True)
class Means:
    """What an act makes its change with; exists between consent and end only."""

    journal: Journal
    power: Power | None
    """None: the act changes a store, and no cluster."""

    @property
    def cluster(self) -> Power:
        """The power to change the cluster. Raises ReadOnly in a read-only session."""
        if self.power is None:
            raise ReadOnly("this changes the cluster: add --write")
        return self.power


class Act(ABC, Generic[T]):
    """An act that changes something. All of it runs in the thread that calls `GuardedRun`."""

    doing: ClassVar[str]
    """``deleting a checkpoint``: what a session without ``--write`` is refused."""
    changes: ClassVar[str] = "the store"
    """What an act changes that is about no cluster."""

    @abstractmethod
    def freeze(self, front: Front) -> Frozen[T]:
        """What the act would do now. Raises BreakglassError where it can do nothing."""

    def look_again(self, front: Front, agreed: Frozen[T]) -> tuple[Frozen[T], tuple[Change, ...]]:
        """What the act would do now, and why the consent to *agreed* does not cover it."""
        fresh = self.freeze(front)
        return fresh, changes_between(agreed, fresh)

    def open_journal(self, agreed: Frozen[T], folder: Path | None) -> Journal:
        """The journal of this run, which locks the cluster. Raises AlreadyRunning, StorageError."""
        return Journal.open(agreed.cluster_id, folder)

    def announce(
        self,
        journal: Journal,
        frozen: Frozen[T],  # noqa: ARG002
        phrases: Sequence[str],
        *,
        implied: bool,
    ) -> None:
        """Write down what was agreed to. Raises StorageError."""
        details = {"implied": True} if implied else {}
        for phrase in phrases:
            journal.consent(phrase, **details)

    @abstractmethod
    def carry_out(self, front: Front, means: Means, frozen: Frozen[T]) -> Ending:
        """Do what was agreed to.

        Raises:
            OutcomeUnknown, Unreachable, StorageError: it may or may not have happened.
            BreakglassError: it failed, or was refused.
        """

    def follow(self, front: Front, frozen: Frozen[T], ending: Ending) -> str:  # noqa: ARG002
        """Do the work that follows and changes no cluster; returns how it ended, or nothing."""
        return ""


def result_of(error: BreakglassError) -> TargetResult:
    """The result of the request that was under way when the error came."""
    return TargetResult.UNKNOWN if isinstance(error, UNSURE) else TargetResult.FAILED


@contextmanager
def announced(
    journal: Journal,
    step: str,
    items: Mapping[TopicPartition, Mapping[str, Any]],
    tell: Tell,
    **details: Any,
) -> Iterator[None]:
    """Write *step* to the journal before it is done, and its result after it.

    *tell* is called for each partition of a step that failed.
    """
    request = journal.request(step, items, **details)
    try:
        yield
    except BreakglassError as error:
        result, reason = result_of(error), str(error)
        journal.outcome(request, {name: {"result": result, "reason": reason} for name in items})
        for partition in items:
            tell(TargetOutcome(str(partition), result, reason))
        raise
    journal.outcome(request, {name: {"result": TargetResult.DONE} for name in items})


FRESH_SECONDS = 2.0
"""Seconds for which evidence counts as the second look, if no prompt came after it."""
NOTHING_DONE = "nothing done"
"""How a journal records an act that ended before its first request."""


class ConsentOutdated(EvidenceChanged, Generic[T]):
    """The second look differs from what was agreed to; nothing was done."""

    def __init__(self, fresh: Frozen[T], changed: tuple[Change, ...]) -> None:
        more = f" (and {len(changed) - 1:,} more changed)" if len(changed) > 1 else ""
        super().__init__(
            f"{changed[0]}{more}: nothing was done; look at it as it is now, then consent to that"
        )
        self.fresh = fresh
        """What the operator can agree to now."""
        self.changed = changed


class GuardedRun(Generic[T]):
    """An act that is carried out at most once."""

    def __init__(self, act: Act[T], front: Front) -> None:
        self._act = act
        self._front = front
        self._begun = threading.Lock()
        self._frozen_at: float | None = None

    def freeze(self) -> Frozen[T]:
        """What the act would do now. Raises BreakglassError where it can do nothing."""
        frozen = self._act.freeze(self._front)
        self._frozen_at = time.monotonic()
        return frozen

    def carry_out(
        self,
        power: Power | None,
        agreed: Frozen[T],
        phrases: Sequence[str],
        *,
        implied: bool = False,
        begin: Callable[[Frozen[T]], None] = lambda _: None,
    ) -> Ending:
        """Do what *agreed* says, once the operator gave *phrases*.

        *implied*: the consent is the command's own name and flag. *begin* is called after the
        second look, before the act: up to then nothing was done.

        Raises:
            ConsentMissing: a phrase is missing or differs.
            AlreadyRunning: this ran before, or another process changes this cluster from here.
            ConsentOutdated: *agreed* is no longer what would happen; nothing was done.
            Refused: it was given up before anything was done.
            WrongCluster: the addresses now lead to another cluster.
            BreakglassError: the act failed; the journal says how far it came.
        """
        require_phrases(phrases, agreed.asked)
        if not self._begun.acquire(blocking=False):
            raise AlreadyRunning(
                "this was begun already, and a consent is good for one run: wait until that ends, "
                "then look at the cluster again"
            )
        act, front = self._act, self._front
        with act.open_journal(agreed, front.state_folder) as journal:
            with _recorded(journal, lambda _: NOTHING_DONE):
                fresh = self._look_again(agreed)
                act.announce(journal, fresh, phrases, implied=implied)
                begin(fresh)
            with _recorded(journal, result_of):
                front.tell(JournalOpened(journal.path))
                ending = act.carry_out(front, Means(journal, power), fresh)
            if ending.result is not None:
                # Each result was reported; a journal without its end can be resumed.
                with suppress(StorageError):
                    journal.finish(ending.result)
        return ending

    def follow(self, agreed: Frozen[T], ending: Ending) -> str:
        """Do the work that follows the act and changes no cluster; returns how it ended."""
        return self._act.follow(self._front, agreed, ending)

    def _look_again(self, agreed: Frozen[T]) -> Frozen[T]:
        read = self._frozen_at
        if read is not None and time.monotonic() - read < FRESH_SECONDS:
            return agreed
        fresh, changed = self._act.look_again(self._front, agreed)
        if self._front.stop():
            # A look that was cut short reports changes that did not happen.
            raise Refused("Given up: nothing was done.")
        if changed:
            raise ConsentOutdated(fresh, changed)
        return fresh


@contextmanager
def _recorded(journal: Journal, result: Callable[[BreakglassError], str]) -> Iterator[None]:
    """Write down why the act ended early; a journal that cannot be written stays unfinished."""
    try:
        yield
    except BreakglassError as error:
        with suppress(StorageError):
            journal.finish(str(result(error)), reason=str(error))
        raise
