"""What the tree, records and two sides look like in both sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.divergence.address import parse_address
from breakglass.services.topic_backup.layout import segment_prefix
from tests.screens.browse.opened import (
    a_place,
    browser,
    edited,
    fill,
    idle,
    shown,
    to,
    under,
    within,
)
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.turns import shows


@pytest.mark.parametrize("look", LOOKS)
async def test_the_tree_records_and_two_sides_look_as_before(
    look: Look, drawn_as_before: Drawn, tmp_path: Path
) -> None:
    with within(tmp_path):
        a_place(Path("backups"))
        edited(Path("copies"))
        console = browser("backups", theme=look.theme, clock=stopped_clock)
        async with console.run_test(size=look.size) as pilot:
            await shows(pilot, "orders")
            await under(pilot, "backups", "old", "0")
            await under(pilot, "backups", "orders", "0", segment_prefix(0, 0))
            await pilot.press("down")
            await at_rest(pilot)
            drawn_as_before(console)

            await shown(pilot, parse_address("backup:backups/orders/0"))
            await fill(pilot, "g", "90")
            await idle(pilot)
            await pilot.press("space", "space", "v")
            await fill(pilot, "slash", "json:id=99")
            await to(pilot, 99)
            await at_rest(pilot)
            drawn_as_before(console)

            await pilot.press("escape", "escape")
            left, right = (parse_address(f"backup:copies/{one}/orders/0") for one in "ab")
            await shown(pilot, left, right)
            await pilot.press("n")
            await to(pilot, 100)
            await at_rest(pilot)
            drawn_as_before(console)
