"""What the Plan screen looks like in each theme and size."""

from __future__ import annotations

import pytest

from breakglass.screens.plan.dialogs import LeaderDialog
from tests.kit.incidents import every_verdict
from tests.screens.drawing import LOOKS, Drawn, Look, stopped_clock
from tests.screens.plan.plan_consoles import (
    LEDGER_3,
    at,
    dialog,
    made,
    no_dialog,
    plan_console,
    shows,
    told,
)


@pytest.mark.parametrize("look", LOOKS)
async def test_an_edited_plan_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    console = plan_console(every_verdict(), theme=look.theme, clock=stopped_clock)
    async with console.run_test(size=look.size) as pilot:
        await made(pilot, console)
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")
        await at(pilot, console, LEDGER_3)
        await pilot.press("l")
        await dialog(pilot, console, LeaderDialog)
        await pilot.press("down", "enter")
        await no_dialog(pilot, console)
        await pilot.press("space", "x")
        await told(pilot, console, "ledger-3: left out")
        await shows(pilot, console, "1 marked")
        drawn_as_before(console)


@pytest.mark.parametrize("look", LOOKS)
async def test_choosing_a_leader_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    console = plan_console(every_verdict(), theme=look.theme, clock=stopped_clock)
    async with console.run_test(size=look.size) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press("l")
        await dialog(pilot, console, LeaderDialog)
        await shows(pilot, console, "Electing b1 loses 50.")
        drawn_as_before(console)
