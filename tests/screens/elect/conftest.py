"""Consoles over fake brokers that elect: b3 led last and is dead, b1 holds more than b2."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from kafka.protocol.consumer import FetchRequest

from breakglass.console.app import BreakglassApp
from breakglass.screens.elect.screen import ElectionPage, ElectScreen
from breakglass.screens.elect.state import Phase
from breakglass.screens.messages import ElectionAsked, ResumeAsked
from breakglass.screens.widgets.consent import ConsentField
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.triage import triage
from tests.kit.fake_broker import Reply
from tests.kit.fake_controller import Answer
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.consoles import Operated, console_on
from tests.screens.drawing import at_rest
from tests.screens.turns import until
from tests.unit.kafka.replicas.held_log import HeldLog
from tests.unit.recovery.guarded.conftest import Session, session
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run

__all__ = ["session"]

SIZE = (80, 24)


class Killed(BaseException):
    """Ends a session as kill -9 would, as far as its files are concerned."""


class Gate:
    """Holds an election up until it is opened; for looking at the screen meanwhile."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def act(self, request: Any, answer: Answer) -> Reply:
        self.reached.set()
        assert self.opened.wait(DEADLINE_SECONDS)
        return answer(request)


@dataclass
class Electing:
    session: Session
    consoles: list[BreakglassApp] = field(default_factory=list)

    @property
    def cluster(self) -> Any:
        return self.session.cluster

    @property
    def steps(self) -> list[str]:
        return self.session.controller.steps

    def incident(self, *gone: int) -> Incident:
        *_, found = triage(self.session.read, 30.0, gone=gone)
        return Incident.of(found)

    def console(self, *, write: bool = True, gone: Sequence[int] = (3,)) -> BreakglassApp:
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
        return [journal.result for journal in self.session.journals()]

    @property
    def sent_nothing(self) -> bool:
        """Nothing was asked of the controller, and no journal was begun that says otherwise."""
        return not self.steps and set(self.results) <= {"nothing done"}

    def gate(self) -> Gate:
        gate = Gate()
        self.session.controller.next(ElectLeadersRequest, gate.act)
        return gate

    def fork(self, topic: str = "orders", *, committed: bool = False) -> TopicPartition:
        """A partition whose logs part at 100: b1 has 25 records after it, b2 50."""
        (partition,) = self.session.offline(topic)
        for broker, tail in ((1, (2, 25)), (2, (1, 50))):
            log = self.cluster.hold(broker, partition, (0, 100), tail)
            if not committed:
                log.high_watermark = 100
        return partition

    def serve_records(self, broker: int, partition: TopicPartition, end: int) -> HeldLog:
        """Let *broker* give its records too: epoch 0 up to offset 100, then epoch 1."""
        fake, told = self.cluster.brokers[broker], self.cluster.apis(broker)[FetchRequest]
        epochs = ((n, 0 if n < 100 else 1) for n in range(0, end, 10))
        held = HeldLog(partition, [batch(run(n, n + 10), epoch=epoch) for n, epoch in epochs])

        def fetch(request: Any) -> Any:
            asks_for_epochs = request.topics[0].partitions[0].last_fetched_epoch >= 0
            return told(request) if asks_for_epochs else held.fetch(request)

        fake.serve(FetchRequest, fetch)
        return held

    def killed(self, after: int = 0) -> Path:
        """The journal of an election of two partitions that was killed *after* so many requests."""
        self.session.offline(count=2)
        wanted, real, left = self.session.wanted(), ElectionClient.elect, [after]

        def die(*given: Any, **more: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return real(*given, **more)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ElectionClient, "elect", die)
            with pytest.raises(Killed):
                self.session.election(wanted).run(["2 partitions lose 0 and abandon b3"])
        (journal,) = self.session.journals()
        return journal.path

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
        console = console or self.console(write=write, gone=gone)
        async with console.run_test(size=size) as pilot:
            await until(pilot, lambda: console.context.known.incident, "the cluster")
            incident = console.context.known.incident
            assert incident is not None
            wanted = partitions or [row.partition for row in incident.rows]
            screen = Screen(pilot)
            await screen.asks(*([] if plan else wanted), plan=plan)
            yield screen

    @asynccontextmanager
    async def resumed(
        self, journal: Path, *, write: bool = True, size: tuple[int, int] = SIZE
    ) -> AsyncIterator[Screen]:
        console = self.console(write=write)
        async with console.run_test(size=size) as pilot:
            console.post_message(ResumeAsked(journal))
            screen = Screen(pilot)
            await until(pilot, lambda: isinstance(console.screen, ElectionPage), "the screen")
            await screen.comes_to(Phase.REVIEW)
            yield screen


class Screen(Operated):
    @property
    def page(self) -> ElectionPage:
        return cast("ElectionPage", self.console.screen)

    @property
    def phase(self) -> Phase | None:
        """None: it was left."""
        shown = self.console.screen
        return shown.state.phase if isinstance(shown, ElectionPage) else None

    @property
    def phrase(self) -> str:
        asked = self.page.state.next_asked
        assert asked is not None, "nothing is asked for"
        return asked.phrase

    async def asks(self, *partitions: TopicPartition, plan: Any = None) -> None:
        while self.phase is not None:
            await self.press("escape")
            await self.settles()
        self.console.post_message(ElectionAsked(partitions, plan))
        await self.until(lambda: isinstance(self.console.screen, ElectScreen), "the screen")
        await self.comes_to(Phase.REVIEW)

    async def type_phrase(self) -> None:
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

    async def settles(self) -> None:
        await at_rest(self.pilot)

    async def comes_to(self, phase: Phase) -> None:
        await self.until(lambda: self.phase is phase, f"{phase}, not {self.phase}")

    async def elect(self) -> None:
        await self.agree()
        await self.comes_to(Phase.DONE)

    async def is_left(self) -> None:
        await self.until(lambda: self.phase is None, "the screen before")

    async def ends(self) -> None:
        await self.until(lambda: not self.console.is_running, "the end of the console")


@pytest.fixture
def electing(session: Session, bare_pages: None) -> Electing:
    return Electing(session)
