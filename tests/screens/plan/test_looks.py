"""What the Plan screen looks like in both sizes."""

from breakglass.screens.plan.asking import LeaderDialog
from tests.screens.drawing import DrawnInSizes, stopped_clock
from tests.screens.plan.plan_consoles import LEDGER_3, planned


async def test_an_edited_plan_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with planned(clock=stopped_clock) as page:
        await page.press("ctrl+r", says="read again and checked")
        await page.at(LEDGER_3)
        await page.choose("l", LeaderDialog, "down", "enter")
        await page.press("space", "x", says="ledger-3: left out")
        await page.shows("1 marked", "elects 7 -> 6")
        await sizes_as_before(page.pilot)


async def test_choosing_a_leader_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with planned(clock=stopped_clock) as page:
        await page.at(LEDGER_3)
        await page.opens("l", LeaderDialog)
        await page.shows("Electing b1 loses 50.")
        await sizes_as_before(page.pilot)
