"""What the tree, records and two sides look like in both sizes."""

from __future__ import annotations

import pytest

from tests.screens.browse.opened import at_records, at_segments, at_sides
from tests.screens.drawing import LOOKS, Drawn, Look


@pytest.mark.parametrize("look", LOOKS)
async def test_the_tree_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with at_segments(look.size, look.theme) as console:
        drawn_as_before(console)


@pytest.mark.parametrize("look", LOOKS)
async def test_records_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with at_records(look.size, look.theme) as console:
        drawn_as_before(console)


@pytest.mark.parametrize("look", LOOKS)
async def test_two_sides_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with at_sides(look.size, look.theme) as console:
        drawn_as_before(console)
