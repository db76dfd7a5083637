"""What the offline partitions look like in both sizes, and on poor terminals."""

from __future__ import annotations

import pytest

from tests.kit.incidents import every_verdict
from tests.screens.drawing import LOOKS, POOR_LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.offline.offline_console import opened


@pytest.mark.parametrize("look", [*LOOKS, *POOR_LOOKS])
async def test_the_list_and_the_replicas_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    keys = ("down", "down", "down", "right", "down", "space", "slash", *"loss:<1,x")
    await looks(look, drawn_as_before, keys, "1,x is no number", "> 1       stale")


@pytest.mark.parametrize("look", LOOKS)
async def test_a_partition_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    keys = ("slash", *"ledger", "enter", "enter")
    await looks(look, drawn_as_before, keys, "Each choice")


@pytest.mark.parametrize("look", LOOKS)
async def test_a_forecast_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    await looks(look, drawn_as_before, ("f",), "start b3 if")


async def looks(look: Look, drawn: Drawn, keys: tuple[str, ...], *words: str) -> None:
    """Compare what is drawn once *words* are there."""
    how = {"size": look.size, "theme": look.theme, "clock": stopped_clock}
    async with opened(every_verdict(), **how) as page:  # type: ignore[arg-type]
        await at_rest(page.pilot)
        await page.press(*keys)
        await page.shows(*words)
        await at_rest(page.pilot)
        drawn(page.console)
