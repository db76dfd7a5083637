"""A cluster that could not be read again: every screen says what was, none says what is."""

from __future__ import annotations

import re

import pytest
from textual.pilot import Pilot

from breakglass.console.app import MODES, BreakglassApp
from breakglass.services.errors import ConnectFailed
from breakglass.services.incident.incident import Incident
from tests.kit.clock import Clock
from tests.kit.incidents import bomb, incident_of
from tests.screens.consoles import console_on
from tests.screens.turns import flat, line_with, lines, shows, until

SEEN = "22:13:20Z"
"""When canned incidents were read."""
PRESENT = re.compile(
    r"No partition is offline|Nothing is offline|quorum ok|\d+ brokers?\b[^;]*\d offline"
    r"|has no command topic|is not offline any more"
)
"""Sentences that are true of a cluster only while it is known."""
SILENT = ConnectFailed("b1 does not answer")


def console(incident: Incident, clock: Clock, start: str) -> BreakglassApp:
    """One that reads *incident*, and nothing after it."""
    return console_on(incident, SILENT, start=start, clock=clock)


async def blind(pilot: Pilot[None], clock: Clock) -> None:
    """The next refresh, 84 seconds later, fails."""
    app = pilot.app
    assert isinstance(app, BreakglassApp)
    known = app.context.known
    await until(pilot, lambda: known.incident and not known.reading, "the first reading")
    await pilot.press("ctrl+r")
    await until(pilot, lambda: known.failure and not known.reading, "the failure")
    clock.advance(84)
    app.screen.on_screen_resume()  # type: ignore[attr-defined]
    await shows(pilot, "UNKNOWN for 84 s: b1 does not answer")


@pytest.mark.parametrize("start", MODES)
async def test_r41_no_screen_says_in_the_present_what_was_seen_last(start: str) -> None:
    clock = Clock()
    app = console(incident_of(), clock, start)
    async with app.run_test(size=(80, 24)) as pilot:
        await blind(pilot, clock)
        await shows(pilot, f"Last seen {SEEN}: none offline")
        assert "? offline" in lines(app)[0]
        assert not PRESENT.search(flat(app)), flat(app)


async def test_the_list_a_partition_and_the_forecast_say_when_they_were_seen() -> None:
    clock = Clock()
    app = console(incident_of(bomb(0)), clock, "offline")
    async with app.run_test(size=(80, 24)) as pilot:
        await blind(pilot, clock)
        headline = app.context.known.incident.summary.alarm  # type: ignore[union-attr]
        await shows(pilot, f'Last seen {SEEN}: 1 offline. It said: "{headline}')
        assert f"as last seen {SEEN}" in line_with(app, "as last seen")
        await shows(pilot, f"So it was at {SEEN}; what is so by now is UNKNOWN.")
        await pilot.press("f")
        await shows(pilot, f"as last seen {SEEN}")
        await pilot.press("escape", "enter")
        await shows(pilot, f"What is so by now is UNKNOWN. At {SEEN}")


async def test_a_plan_of_what_was_seen_last_says_so() -> None:
    clock = Clock()
    app = console(incident_of(), clock, "plan")
    async with app.run_test(size=(80, 24)) as pilot:
        await blind(pilot, clock)
        await pilot.press("p")
        await shows(pilot, f"No partition was offline at {SEEN}")


async def test_what_is_read_again_is_said_in_the_present_again() -> None:
    clock, incident = Clock(), incident_of()
    app = console_on(incident, SILENT, incident, clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await blind(pilot, clock)
        await shows(pilot, f"Nothing was offline at {SEEN}.")
        await pilot.press("ctrl+r")
        await shows(pilot, "No partition is offline.")
        await shows(pilot, "No partition is offline.")
        assert "UNKNOWN for" not in flat(app)
