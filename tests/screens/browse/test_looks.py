"""What the tree, records and two sides look like in both sizes."""

from pathlib import Path

import pytest

from tests.screens.browse.opened import (
    a_place,
    browser,
    edited,
    to_records,
    to_segments,
    to_sides,
    within,
)
from tests.screens.drawing import LOOKS, Drawn, Look, stopped_clock
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
            await to_segments(pilot)
            drawn_as_before(console)

            await to_records(pilot)
            drawn_as_before(console)

            await pilot.press("escape", "escape")
            await to_sides(pilot)
            drawn_as_before(console)
