"""The screen of two replicas on canned logs: as an operator sees it, without a broker."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from breakglass.screens.diff.paged import Compare
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.diff.record_page import RecordView
from breakglass.screens.diff.screen import DiffScreen, ReplicaRecordScreen
from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.entry import Item
from breakglass.services.divergence.replica_source import Facing
from breakglass.services.divergence.source import Reading
from breakglass.services.errors import BreakglassError
from breakglass.services.incident.incident import Incident
from tests.kit.incidents import diverged_incident
from tests.screens.consoles import Operated, console_on
from tests.screens.turns import opens, text, until
from tests.unit.divergence.streams import ListSource, entries

LEDGER_LOGS: dict[int, Sequence[Item]] = {
    1: [*entries(0, 100, b"shared", 0), *entries(100, 125, b"new of b1", 2)],
    2: [*entries(0, 100, b"shared", 0), *entries(100, 150, b"old of b2", 1)],
}
"""What the evidence of `diverged_incident` says of b1 and b2."""

CALM_TURNS = 4


@dataclass
class Gate:
    """Keeps readers waiting, as a slow broker does, until it is opened or they are not wanted."""

    opened: threading.Event = field(default_factory=threading.Event)
    waiting: threading.Event = field(default_factory=threading.Event)

    def pass_through(self, reading: Reading) -> None:
        self.waiting.set()
        while not self.opened.wait(0.005):
            reading.go_on()


@dataclass
class GatedSource(ListSource):
    gate: Gate = field(default_factory=Gate)

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        self.gate.pass_through(reading)
        yield from super().read(start, end, reading)


@dataclass
class Replicas:
    """What brokers hold, in place of a connection to them."""

    logs: Mapping[int, Sequence[Item]]
    gate: Gate = field(default_factory=Gate)
    failure: BreakglassError | None = None
    connected: int = 0
    closed: int = 0

    @contextmanager
    def connect(self) -> Iterator[Compare[Facing]]:
        if self.failure is not None:
            raise self.failure
        self.connected += 1
        yield self.compare
        self.closed += 1

    def compare(self, facing: Facing) -> Comparison:
        left, right = (
            GatedSource(self.logs[log.broker], f"b{log.broker}", gate=self.gate)
            for log in (facing.left, facing.right)
        )
        return Comparison(left, right, facing.proven_same)


@dataclass
class Opened(Operated):
    screen: DiffScreen
    replicas: Replicas

    @property
    def pairs(self) -> PairList:
        return self.screen.query_one(PairList)

    @property
    def at(self) -> int | None:
        return None if self.pairs.current is None else self.pairs.current.offset

    async def says(self, *words: str) -> None:
        for one in words:
            await self.until(lambda one=one: one in self.text, one)

    async def walks(self, *steps: tuple[str, int]) -> None:
        """Press the keys of each step, parted by blanks, and come to its offset."""
        for keys, offset in steps:
            for key in keys.split():
                await self.press(key)
                await self.until(lambda: not self.screen.busy, "the end of a task")
            await self.at_offset(offset)

    async def opens_record(self) -> RecordView:
        await self.press("enter")
        page = await opens(self.pilot, ReplicaRecordScreen)
        await self.until(lambda: not page.busy, "the record")
        view: RecordView = page.query_one(RecordView)
        return view

    async def closes_record(self) -> None:
        await self.press("escape")
        await self.until(lambda: self.console.screen is self.screen, "the list")

    async def compares(
        self,
        incident: Incident | None = None,
        logs: Mapping[int, Sequence[Item]] = LEDGER_LOGS,
        *,
        sides: tuple[int | None, int | None] = (None, None),
        failure: BreakglassError | None = None,
        held_back: bool = False,
    ) -> Opened:
        known = incident or diverged_incident()
        self.console.context.known.incident = known
        replicas = Replicas(logs, failure=failure)
        if not held_back:
            replicas.gate.opened.set()
        partition = known.rows[0].partition
        screen = DiffScreen(self.console.context, partition, *sides, connect=replicas.connect)
        await self.console.push_screen(screen)
        shown = Opened(self.pilot, screen, replicas)
        await shown.until(lambda: held_back or not screen.busy, "the first records")
        return shown

    async def is_left(self) -> None:
        await self.until(lambda: self.console.screen is not self.screen, "the screen before")

    async def settled(self) -> None:
        """Wait until nothing has changed on the screen for some turns."""
        seen: list[str] = []

        def unchanged() -> bool:
            seen.append(text(self.console))
            return len(seen) >= CALM_TURNS and len(set(seen[-CALM_TURNS:])) == 1

        await self.until(unchanged, "a screen that stays as it is")

    async def at_offset(self, offset: int) -> None:
        await self.until(
            lambda: self.at == offset and not self.screen.busy, f"offset {offset}, not {self.at}"
        )


@asynccontextmanager
async def opened(
    logs: Mapping[int, Sequence[Item]] = LEDGER_LOGS,
    *,
    size: tuple[int, int] = (80, 24),
    incidents: Sequence[Incident] = (),
    held_back: bool = False,
    theme: str = "breakglass-dark",
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Opened]:
    """A console that shows the first offline partition's replicas; *held_back*: not read yet."""
    known = incidents or (diverged_incident(),)
    console = console_on(*known, theme=theme, clock=clock)
    async with console.run_test(size=size) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        list_of_all = Opened(pilot, console.screen, Replicas({}))  # type: ignore[arg-type]
        shown = await list_of_all.compares(known[0], logs, held_back=held_back)
        yield shown
        shown.replicas.gate.opened.set()
