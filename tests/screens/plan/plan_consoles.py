"""The Plan screen on canned incidents, as an operator works with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.widgets import Input

from breakglass.screens.plan.acts import PlanView
from breakglass.screens.plan.screen import PlanScreen, PlanSummary
from breakglass.screens.widgets.dialog import Dialog
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.model import TopicPartition
from tests.kit.incidents import every_verdict
from tests.screens.consoles import Operated, console_on
from tests.screens.turns import opens, text

OFFSETS, FORK, BOMB, LEDGER_3 = (
    TopicPartition("__consumer_offsets", 7),
    TopicPartition("audit", 5),
    TopicPartition("carts", 0),
    TopicPartition("ledger", 3),
)
"""Of `every_verdict`; all are in its plan, `LEDGER_3` as the sixth row."""


class PlanPage(Operated):
    """The Plan screen, be a dialog over it or not."""

    @property
    def screen(self) -> PlanScreen:
        shown = self.console.screen_stack
        return next(screen for screen in shown if isinstance(screen, PlanScreen))

    @property
    def view(self) -> PlanView:
        assert self.screen.view is not None, "there is a plan"
        return self.screen.view

    @property
    def leaders(self) -> dict[str, int]:
        return {str(one): leader for one, leader in self.view.draft.plan.leaders.items()}

    @property
    def said(self) -> str:
        return self.screen.query_one(PlanSummary).said

    async def press(self, *keys: str, says: str = "") -> None:
        await self.pilot.press(*keys)
        if says:
            await self.until(lambda: says in self.said, f"{says!r}, not {self.said!r}")

    async def idle(self) -> None:
        await self.pilot.pause()
        await self.until(lambda: not self.screen.desk.busy, "the plan to be done with")

    async def known(self) -> None:
        state = self.console.context.known
        await self.until(lambda: state.incident and not state.reading, "the cluster")

    async def make(self) -> None:
        await self.known()
        await self.press("p")
        await self.until(lambda: self.screen.view is not None, "a plan")
        await self.idle()

    async def at(self, partition: TopicPartition) -> None:
        assert self.screen.query_one(LineTable).move_to(partition), text(self.console)
        await self.pilot.pause()

    async def closes(self) -> None:
        await opens(self.pilot, PlanScreen)
        await self.idle()

    async def choose(self, key: str, kind: type[Dialog[Any]], *keys: str, says: str = "") -> None:
        await self.opens(key, kind)
        await self.press(*keys)
        await self.closes()
        await self.press(says=says)

    async def fill(self, given: str, field: str = "Input") -> None:
        entry = self.console.screen.query_one(field, Input)
        entry.focus()
        entry.value = given
        await self.press("enter")

    async def write(self, key: str, kind: type[Dialog[Any]], given: str, says: str = "") -> None:
        await self.opens(key, kind)
        await self.fill(given)
        await self.closes()
        await self.press(says=says)


@asynccontextmanager
async def planning(
    *readings: Any, size: tuple[int, int] = (80, 24), hook: Any = None, **options: Any
) -> AsyncIterator[PlanPage]:
    """The Plan screen, once the cluster is known; *hook* hears every message."""
    console = console_on(*(readings or (every_verdict(),)), start="plan", **options)
    async with console.run_test(size=size, message_hook=hook, notifications=True) as pilot:
        page = PlanPage(pilot)
        await page.known()
        yield page


@asynccontextmanager
async def planned(*readings: Any, **options: Any) -> AsyncIterator[PlanPage]:
    async with planning(*readings, **options) as page:
        await page.make()
        yield page
