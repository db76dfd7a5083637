"""Guarded acts on checkpoints without a cluster: what they freeze, tell and raise is set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from breakglass.console.app import BreakglassApp
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.act import (
    Act,
    ActEvent,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import Journal
from breakglass.services.session import Power, ReadAccess
from tests.screens.checkpoints.held import Canned, checkpoints_of

ARMED = cast("Power", object())
CLUSTER = "lab-cluster"
FACTS = (
    ("Checkpoint", "6 in /checkpoints/bank"),
    ("Level", "coordinated: cut at the id that every record carries"),
    ("Topics", "bank (3 partitions)"),
    ("Groups", "tellers exactly-once"),
    ("Timeline", "8d1c7c1f00aa11bb"),
)
TARGETS = ("bank-0", "bank-1", "bank-2")
PHRASE = "write 3 markers"
FROZEN: Frozen[None] = Frozen(
    CLUSTER,
    (ConsentPhrase(PHRASE),),
    FACTS,
    TARGETS,
    ("group tellers lags: bank-0 at 55 of 60; it has 60 s",),
)
DONE = tuple(TargetOutcome(target, TargetResult.DONE, "started at 110") for target in TARGETS)


class CannedJournal:
    """A journal of a known name that keeps nothing."""

    path = Path("/state/journal/6.jsonl")

    def __enter__(self) -> CannedJournal:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def consent(self, phrase: str) -> None:
        """Nothing is kept."""

    def finish(self, result: str, **details: object) -> None:
        """Nothing is kept."""


@dataclass(slots=True)
class CannedAct(Act[None]):
    """An act; each look freezes the next of *looks*, and the last one ever after."""

    doing: ClassVar[str] = "taking a checkpoint"
    looks: list[Frozen[None] | Exception] = field(default_factory=lambda: [FROZEN])
    events: tuple[ActEvent, ...] = DONE
    failure: Exception | None = None
    locked: Exception | None = None
    """Why no journal can be opened."""
    left: str = ""
    """What the rest comes to."""
    calls: list[str] = field(default_factory=list)
    hold: Callable[[str], object] = lambda _: None
    """Called with what is about to be done."""

    def freeze(self, front: Front) -> Frozen[None]:
        self.hold("freeze")
        self.calls.append("freeze")
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    def open_journal(self, agreed: Frozen[None], folder: Path | None) -> Journal:
        if self.locked is not None:
            raise self.locked
        return cast("Journal", CannedJournal())

    def carry_out(self, front: Front, means: Means, frozen: Frozen[None]) -> Ending:
        self.hold("carry out")
        self.calls.append("carry out")
        for event in self.events:
            front.tell(event)
        if self.failure is not None:
            raise self.failure
        return Ending(text="checkpoint 6 is acknowledged")

    def follow(self, front: Front, frozen: Frozen[None], ending: Ending) -> str:
        self.calls.append("follow")
        return self.left


@dataclass(slots=True, eq=False)
class ToldAccess:
    """A cluster that says who it is, and nothing else."""

    cluster_id: str = CLUSTER

    @contextmanager
    def reading(self, client_id: str | None = None) -> Iterator[ToldAccess]:
        del client_id
        yield self

    def describe(self, deadline: object) -> ToldAccess:
        del deadline
        return self

    def close(self) -> None:
        """Nothing is open."""


def armed_on(watch: Canned, state: Path | None = None, **options: Any) -> BreakglassApp:
    access = cast("ReadAccess", ToldAccess())
    return checkpoints_of(watch, access=access, power=ARMED, state_folder=state, **options)


def changed(**facts: str) -> Frozen[None]:
    told = tuple((label, facts.get(label, was)) for label, was in FACTS)
    return replace(FROZEN, facts=told)


def raising(error: BreakglassError) -> Callable[..., None]:
    def failed(*_: object) -> None:
        raise error

    return failed
