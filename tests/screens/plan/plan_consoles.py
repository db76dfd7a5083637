"""The Plan screen on canned incidents, as the tests work with it."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from breakglass.console.app import BreakglassApp
from breakglass.screens.plan import PlanScreen
from breakglass.screens.plan.summary import PlanSummary
from breakglass.screens.plan.view import PlanView
from breakglass.screens.widgets.dialog import Dialog
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.incident.incident import Incident
from breakglass.services.model import TopicPartition
from tests.screens.consoles import console_on
from tests.screens.turns import text, until

OFFSETS, FORK, BOMB, LEDGER_3 = (
    TopicPartition("__consumer_offsets", 7),
    TopicPartition("audit", 5),
    TopicPartition("carts", 0),
    TopicPartition("ledger", 3),
)
"""Of `every_verdict`; all are in its plan, `LEDGER_3` as the sixth row."""


def plan_console(*readings: Incident | Any, **options: Any) -> BreakglassApp:
    """A console on the Plan screen."""
    return console_on(*readings, start="plan", **options)


def screen_of(console: BreakglassApp) -> PlanScreen:
    """The Plan screen, be a dialog over it or not."""
    return next(screen for screen in console.screen_stack if isinstance(screen, PlanScreen))


def view_of(console: BreakglassApp) -> PlanView:
    view = screen_of(console).view
    assert view is not None, "there is a plan"
    return view


def said(console: BreakglassApp) -> str:
    """What the screen says was done last."""
    return screen_of(console).query_one(PlanSummary).said


def leaders(console: BreakglassApp) -> dict[str, int]:
    """The plan's elections."""
    return {str(one): leader for one, leader in view_of(console).draft.plan.leaders.items()}


async def idle(pilot: Pilot[Any], console: BreakglassApp) -> None:
    """Wait until everything asked of the plan is done."""
    await pilot.pause()
    await until(pilot, lambda: not screen_of(console).desk.busy, "the plan to be done with")


async def known(pilot: Pilot[Any], console: BreakglassApp) -> None:
    """Wait until the cluster has been read."""
    state = console.context.known
    await until(pilot, lambda: state.incident is not None and not state.reading, "the cluster")


async def made(pilot: Pilot[Any], console: BreakglassApp) -> None:
    """Make a plan of all that is offline."""
    await known(pilot, console)
    await pilot.press("p")
    await until(pilot, lambda: screen_of(console).view is not None, "a plan")
    await idle(pilot, console)


async def at(pilot: Pilot[Any], console: BreakglassApp, partition: TopicPartition) -> None:
    """Put the cursor on the row of *partition*."""
    assert screen_of(console).query_one(LineTable).move_to(partition), text(console)
    await pilot.pause()


async def dialog(pilot: Pilot[Any], console: BreakglassApp, kind: type[Dialog[Any]]) -> Any:
    """Wait for a dialog of that kind."""
    await until(pilot, lambda: isinstance(console.screen, kind), kind.__name__)
    await pilot.pause()
    return console.screen


async def no_dialog(pilot: Pilot[Any], console: BreakglassApp) -> None:
    """Wait until the Plan screen is on top, and all is done."""
    await until(pilot, lambda: isinstance(console.screen, PlanScreen), "the plan itself")
    await idle(pilot, console)


async def typed(pilot: Pilot[Any], console: BreakglassApp, given: str, field: str = "") -> None:
    """Fill the field of the dialog on top with *given*, and press Enter there."""
    entry = console.screen.query_one(field or "Input", Input)
    entry.focus()
    entry.value = given
    await pilot.press("enter")


async def shows(pilot: Pilot[Any], console: BreakglassApp, words: str) -> None:
    """Wait until *words* can be read."""
    await until(pilot, lambda: words in text(console), f"{words!r} on\n{text(console)}")


async def told(pilot: Pilot[Any], console: BreakglassApp, words: str) -> None:
    """Wait until the screen says that something was done."""
    await until(pilot, lambda: words in said(console), f"{words!r}, not {said(console)!r}")
