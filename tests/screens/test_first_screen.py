"""The first screen comes up whatever the order in which Python begins tasks."""

import asyncio

import pytest

from breakglass.console.app import MODES
from tests.kit.extent import others_slow
from tests.kit.incidents import every_verdict
from tests.screens.consoles import console_on
from tests.screens.eager_tasks import begin_at_once
from tests.screens.turns import lines, until


@pytest.mark.parametrize("start", others_slow(MODES, "offline"))
async def test_every_first_screen_comes_up_where_tasks_begin_when_they_are_made(start: str) -> None:
    begin_at_once(asyncio.get_running_loop())
    console = console_on(every_verdict(), start=start)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "? help" in lines(console)[-1], "the keys of the screen")
        assert console.current_mode == start
