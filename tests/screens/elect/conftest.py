"""Consoles over fake brokers that elect: b3 led last and is dead, b1 holds more than b2."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.screens.elect import ElectScreen
from breakglass.screens.elect.page import GuardedPage
from breakglass.screens.elect.state import Phase
from breakglass.screens.messages import ElectionAsked, ResumeAsked
from breakglass.screens.widgets.consent import ConsentField
from breakglass.services.incident.incident import Incident
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.triage import triage
from tests.screens.consoles import console_on
from tests.screens.turns import text, until
from tests.unit.recovery.guarded.conftest import Session, session

__all__ = ["session"]

SIZE = (80, 24)
TURNS_ALIKE = 10


@dataclass
class Electing:
    """A console on a cluster whose partitions are offline."""

    session: Session
    consoles: list[BreakglassApp] = field(default_factory=list)

    @property
    def cluster(self) -> Any:
        return self.session.cluster

    @property
    def steps(self) -> list[str]:
        """What was asked of the controller."""
        return self.session.controller.steps

    def incident(self, *gone: int) -> Incident:
        """The cluster as it is now; brokers of *gone* are not worth waiting for."""
        *_, found = triage(self.session.read, 30.0, gone=gone)
        return Incident.of(found)

    def console(self, *, write: bool = True, gone: Sequence[int] = (3,)) -> BreakglassApp:
        """A console on the cluster as it is now."""
        power = self.session.power
        made = console_on(
            self.incident(*gone),
            access=power.access,
            power=power if write else None,
            state_folder=self.session.state,
        )
        self.consoles.append(made)
        return made

    @property
    def results(self) -> list[str | None]:
        """How each journal ended, the newest first."""
        return [journal.result for journal in self.session.journals()]

    @asynccontextmanager
    async def asked(
        self,
        *partitions: TopicPartition,
        write: bool = True,
        gone: Sequence[int] = (3,),
        size: tuple[int, int] = SIZE,
        plan: Any = None,
        console: BreakglassApp | None = None,
    ) -> AsyncIterator[Screen]:
        """The screen of an election, as soon as everything is shown."""
        console = console or self.console(write=write, gone=gone)
        async with console.run_test(size=size) as pilot:
            await until(pilot, lambda: console.context.known.incident, "the cluster")
            incident = console.context.known.incident
            assert incident is not None
            wanted = partitions or [row.partition for row in incident.rows]
            console.post_message(ElectionAsked([] if plan else wanted, plan))
            screen = Screen(console, pilot)
            await until(pilot, lambda: isinstance(console.screen, ElectScreen), "the screen")
            await screen.comes_to(Phase.REVIEW)
            yield screen

    @asynccontextmanager
    async def resumed(
        self, journal: Path, *, write: bool = True, size: tuple[int, int] = SIZE
    ) -> AsyncIterator[Screen]:
        """The screen of a journal, as soon as everything is shown."""
        console = self.console(write=write)
        async with console.run_test(size=size) as pilot:
            console.post_message(ResumeAsked(journal))
            screen = Screen(console, pilot)
            await until(pilot, lambda: isinstance(console.screen, GuardedPage), "the screen")
            await screen.comes_to(Phase.REVIEW)
            yield screen


@dataclass
class Screen:
    """One guarded screen, and the keys pressed on it."""

    console: BreakglassApp
    pilot: Pilot[Any]

    @property
    def page(self) -> GuardedPage:
        return cast("GuardedPage", self.console.screen)

    @property
    def phase(self) -> Phase | None:
        """None: it was left."""
        shown = self.console.screen
        return shown.state.phase if isinstance(shown, GuardedPage) else None

    @property
    def text(self) -> str:
        """All on one line, for sentences that are wrapped."""
        return " ".join(text(self.console).split())

    @property
    def phrase(self) -> str:
        """The one that is asked for."""
        asked = self.page.state.next_asked
        assert asked is not None, "nothing is asked for"
        return asked.phrase

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type_phrase(self) -> None:
        """Go from Cancel to the field, and type what is asked for."""
        await self.press("tab", *self.phrase)

    async def agree(self) -> None:
        """Give every phrase; as if it were typed, for keys take their time."""
        await self.press("tab")
        while self.phase is Phase.REVIEW and self.page.state.next_asked:
            attempt, given = self.page._worker.number, len(self.page.state.given)
            self.page.query_one(ConsentField).typed = self.phrase
            await self.press("enter")
            await self.until(partial(self._taken, attempt, given), "the phrase is taken")
            if self.page._worker.number > attempt:
                return

    def _taken(self, attempt: int, given: int) -> bool:
        return self.page._worker.number > attempt or len(self.page.state.given) > given

    async def until(self, so: Callable[[], object], what: str) -> None:
        await until(self.pilot, so, what)

    async def settles(self) -> None:
        """Wait until nothing moves on the screen any more."""
        before, alike = "", 0
        while alike < TURNS_ALIKE:
            now = text(self.console)
            before, alike = now, alike + 1 if now == before else 0
            await self.pilot.pause(0.01)

    async def comes_to(self, phase: Phase) -> None:
        await self.until(lambda: self.phase is phase, f"{phase}, not {self.phase}")

    async def shows(self, words: str) -> None:
        """Wait until *words* are on the screen."""
        try:
            await self.until(lambda: words in self.text, words)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen shows {self.text}") from None


@pytest.fixture
def electing(session: Session, bare_pages: None) -> Electing:
    return Electing(session)
