"""Carries a guarded act out for a command: frozen, shown, agreed to, run, its events said.

The consent is a phrase of `--consent`, or typed where standard input is a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from breakglass.console.exits import FAILED
from breakglass.console.output import say
from breakglass.services.errors import OutcomeUnknown, ReadOnly
from breakglass.services.guard.act import (
    ActStep,
    Armed,
    Front,
    GuardedRun,
    JournalOpened,
    TargetOutcome,
    TargetResult,
)
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.console.exits import StopSignal
    from breakglass.console.option_values import Consent
    from breakglass.console.wiring import Connection
    from breakglass.services.guard.act import Act, ActEvent, Ending, Frozen, Tell
    from breakglass.services.session import Power

T = TypeVar("T")


class GuardedCommand(Generic[T]):
    """One act of one command. Without a *connection* it changes a store, and no cluster."""

    def __init__(
        self,
        act: Act[T],
        consent: Consent,
        connection: Connection | None = None,
        *,
        stop: StopSignal | None = None,
        hear: Tell | None = None,
        state: Path | None = None,
    ) -> None:
        """*hear* gets every event in place of `say_event`; *stop* ends the act early."""
        self._act = act
        self._consent = consent
        self._connection = connection
        self._stop = stop
        self._hear = hear or say_event
        access = None if connection is None else connection.access()
        self._run = GuardedRun(act, Front(access, self._tell, self._stopped, state))

    def freeze(self) -> Frozen[T]:
        """What the act would do now. Raises BreakglassError where it can do nothing."""
        return self._run.freeze()

    def carry_out(
        self, frozen: Frozen[T], *, write: bool = False, reads_only: bool = False
    ) -> Ending:
        """Do it, after consent.

        *write*: `--write` was given, for acts on a store. *reads_only*: the act adds to a store,
        and only reads the cluster.

        Raises:
            ReadOnly: `--write` was not given.
            ConsentMissing: a phrase was not given, or differs.
            ConsentOutdated: it is no longer as it was shown; nothing was done.
        """
        power = None if reads_only else self._power(write=write)
        phrases = self._consent.require([asked.phrase for asked in frozen.asked])
        return self._run.carry_out(power, frozen, phrases, implied=self._consent.implied)

    def follow(self, frozen: Frozen[T], ending: Ending) -> str:
        """Do what is left after the act and changes no cluster."""
        return self._run.follow(frozen, ending)

    def _power(self, *, write: bool) -> Power | None:
        if self._connection is not None:
            return self._connection.power(self._act.doing)
        if not write:
            raise ReadOnly(f"{self._act.doing} changes {self._act.changes}: add --write")
        return None

    def _tell(self, event: ActEvent) -> None:
        if isinstance(event, Armed) and self._stop is not None:
            self._stop.armed()
        self._hear(event)

    def _stopped(self) -> bool:
        return self._stop is not None and self._stop.requested


def say_event(event: ActEvent) -> None:
    """Say on stderr what every act reports; results are for the command to print."""
    if isinstance(event, JournalOpened):
        say(f"journal: {event.path}")
    elif isinstance(event, ActStep):
        say(event.text)


def say_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Say what a consent rests on."""
    for label, told in facts:
        say(f"{label}: {told}")


@dataclass(slots=True)
class Outcomes:
    """Hears an act; prints the result of each topic, on stderr where it is no success."""

    quiet: bool = False
    """stdout is kept for a document."""
    told: list[TargetOutcome] = field(default_factory=list)
    journal: Path | None = None

    def __call__(self, event: ActEvent) -> None:
        if isinstance(event, JournalOpened):
            self.journal = event.path
        if not isinstance(event, TargetOutcome):
            say_event(event)
            return
        self.told.append(event)
        line = f"{event.target}  {event.result}: {event.text}"
        if event.result is TargetResult.DONE and not self.quiet:
            print(inert(line), flush=True)
        else:
            say(line)

    @property
    def documents(self) -> list[dict[str, object]]:
        return [
            {"topic": outcome.target, "result": outcome.result, "reason": outcome.text}
            for outcome in self.told
        ]

    def ended(self, ending: Ending) -> int:
        if ending.text:
            say(ending.text)
        results = {outcome.result for outcome in self.told}
        if TargetResult.UNKNOWN in results:
            return OutcomeUnknown.exit_code
        return FAILED if TargetResult.FAILED in results else 0
