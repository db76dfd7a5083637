"""What the offline partitions look like in both sizes."""

from __future__ import annotations

import pytest

from tests.kit.incidents import every_verdict
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.offline.offline_console import opened
from tests.screens.turns import text, until


@pytest.mark.parametrize("look", LOOKS)
async def test_the_list_and_the_replicas_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with opened(every_verdict(), size=look.size, theme=look.theme, clock=stopped_clock) as (
        pilot,
        console,
    ):
        await pilot.press("down", "down", "down", "right", "down", "space", "slash", *"loss:<1,x")
        await until(pilot, lambda: "1,x is no number" in text(console), "the fault")
        await until(pilot, lambda: "> 1       stale" in text(console), "the replicas")
        await at_rest(pilot)
        drawn_as_before(console)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_partition_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with opened(every_verdict(), size=look.size, theme=look.theme, clock=stopped_clock) as (
        pilot,
        console,
    ):
        await pilot.press("slash", *"ledger", "enter", "enter")
        await until(pilot, lambda: "Each choice" in text(console), "the partition")
        await at_rest(pilot)
        drawn_as_before(console)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_forecast_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with opened(every_verdict(), size=look.size, theme=look.theme, clock=stopped_clock) as (
        pilot,
        console,
    ):
        await pilot.press("f")
        await until(pilot, lambda: "start b3 with" in text(console), "the forecast")
        await at_rest(pilot)
        drawn_as_before(console)
