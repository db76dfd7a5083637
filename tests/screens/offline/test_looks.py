"""What the offline partitions look like in both sizes, and on poor terminals."""

import pytest

from tests.kit.incidents import every_verdict
from tests.screens.drawing import POOR_LOOKS, Drawn, DrawnInSizes, Look, at_rest, stopped_clock
from tests.screens.offline.offline_console import OfflinePage, opened

MARKED = ("down", "down", "down", "right", "down", "space", "slash", *"loss:<1,x")


async def mark(page: OfflinePage) -> None:
    await at_rest(page.pilot)
    await page.press(*MARKED)
    await page.shows("1,x is no number", "> 1       stale")
    await at_rest(page.pilot)


async def test_every_view_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with opened(every_verdict(), clock=stopped_clock) as page:
        await page.press("f")
        await page.shows("start b3 if")
        await sizes_as_before(page.pilot, "forecast")
        await page.press("escape")
        await mark(page)
        await sizes_as_before(page.pilot, "list")
        await page.press("escape", *"ledger", "enter", "enter")
        await page.shows("Each choice")
        await sizes_as_before(page.pilot, "partition")


@pytest.mark.parametrize("look", POOR_LOOKS)
async def test_the_list_and_the_replicas_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with opened(every_verdict(), theme=look.theme, clock=stopped_clock) as page:
        await mark(page)
        drawn_as_before(page.console)
