"""What came from a broker, a file or a record acts on no screen: it is shown, and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from breakglass.console.app import MODES, BreakglassApp
from breakglass.screens.messages import DiffAsked, ElectionAsked, PlanAsked
from breakglass.services.errors import ClusterError
from tests.kit.incidents import hostile_names
from tests.screens.consoles import console_on
from tests.screens.turns import is_inert, shows, until

HOSTILE_ERROR = ClusterError(
    "\x1b]0;owned\x07[bold red]broker[/] said\r\n\u202eno\u2069 \x9b2J" + "A" * 100_000
)


@pytest.fixture
def hostile() -> BreakglassApp:
    """A cluster of hostile names whose second refresh fails with a hostile sentence."""
    return console_on(hostile_names(), HOSTILE_ERROR)


async def test_every_main_screen_is_inert_in_every_size(hostile: BreakglassApp) -> None:
    async with hostile.run_test(size=(80, 24), notifications=True) as pilot:
        await shows(pilot, "2 offline")
        await pilot.press("ctrl+r")
        for mode in MODES:
            await hostile.switch_mode(mode)
            await shows(pilot, "[bold red]broker[/]")
            for size in ((60, 20), (160, 50), (80, 24)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                assert is_inert(hostile), mode


@pytest.mark.parametrize(
    ("asked", "screen"),
    [(ElectionAsked, "ElectScreen"), (PlanAsked, "PlanScreen"), (DiffAsked, "DiffScreen")],
)
async def test_a_screen_about_hostile_partitions_is_inert(
    hostile: BreakglassApp, asked: Any, screen: str
) -> None:
    async with hostile.run_test(size=(80, 24), notifications=True) as pilot:
        await shows(pilot, "2 offline")
        incident = hostile.context.known.incident
        assert incident is not None
        partitions = [row.partition for row in incident.rows]
        message = DiffAsked(partitions[0]) if asked is DiffAsked else asked(partitions)
        hostile.post_message(message)
        await until(pilot, lambda: type(hostile.screen).__name__ == screen, screen)
        await pilot.pause()
        assert is_inert(hostile)
