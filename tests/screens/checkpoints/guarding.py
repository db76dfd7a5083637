"""Guarded acts on checkpoints without a cluster: what they freeze, tell and raise is set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from console.app import BreakglassApp
from services.checkpoint.guarded.act import (
    ActStep,
    Event,
    Frozen,
    TargetOutcome,
    TargetResult,
    Tell,
)
from services.errors import BreakglassError
from services.kafka.read_client import ReadClient
from services.session import Power, ReadAccess
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
FROZEN = Frozen(
    CLUSTER,
    "take checkpoint 6 with 3 markers",
    FACTS,
    TARGETS,
    ("group tellers lags: bank-0 at 55 of 60; it has 60 s",),
)
DONE = tuple(TargetOutcome(one, TargetResult.DONE, "started at 110") for one in TARGETS)


@dataclass(slots=True)
class CannedAct:
    """An act; each look freezes the next of *looks*, and the last one ever after."""

    looks: list[Frozen | Exception] = field(default_factory=lambda: [FROZEN])
    events: tuple[Event, ...] = (ActStep("journal: /state/journal/6.jsonl"), *DONE)
    failure: Exception | None = None
    left: str = ""
    """What the rest comes to."""
    calls: list[str] = field(default_factory=list)
    hold: Callable[[str], object] = lambda _: None
    """Called with what is about to be done."""

    def freeze(self, client: ReadClient) -> Frozen:
        del client
        self.hold("freeze")
        self.calls.append("freeze")
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    def carry_out(self, power: Power, frozen: Frozen, tell: Tell) -> str:
        del power, frozen
        self.hold("carry out")
        self.calls.append("carry out")
        for one in self.events:
            tell(one)
        if self.failure is not None:
            raise self.failure
        return "checkpoint 6 is acknowledged"

    def follow(self, frozen: Frozen, tell: Tell) -> str:
        del frozen, tell
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
    """A console on the checkpoints of *watch*, begun with --write."""
    access = cast("ReadAccess", ToldAccess())
    return checkpoints_of(watch, access=access, power=ARMED, state_folder=state, **options)


def changed(**facts: str) -> Frozen:
    """`FROZEN` with other facts."""
    told = tuple((label, facts.get(label, was)) for label, was in FACTS)
    return replace(FROZEN, facts=told)


def raising(error: BreakglassError) -> Callable[..., None]:
    """What fails so, whatever it is asked."""

    def failed(*_: object) -> None:
        raise error

    return failed
