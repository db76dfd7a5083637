"""Leaving with edits that are in no file: warned of, and left by a second q soon after."""

from __future__ import annotations

from breakglass.console.app import WARNED_SECONDS
from tests.kit.incidents import diverged_incident
from tests.screens.plan.plan_consoles import idle, made, plan_console
from tests.screens.turns import until


async def test_a_second_q_leaves_and_a_late_one_is_warned_again() -> None:
    now = [1_000.0]
    console = plan_console(diverged_incident(), clock=lambda: now[0])
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("x")
        await idle(pilot, console)
        await pilot.press("q")
        assert console.is_running
        now[0] += WARNED_SECONDS + 1
        await pilot.press("q")
        assert console.is_running, "it may be another edit by now"
        assert len(console._notifications) == 2
        await pilot.press("q")
        await until(pilot, lambda: not console.is_running, "the end")
