"""What came from a broker, a file or a record acts on no screen: it is shown, and bounded."""

from __future__ import annotations

from breakglass.console.app import MODES
from breakglass.screens.diff import DiffScreen
from breakglass.screens.elect import ElectScreen
from breakglass.screens.messages import DiffAsked, ElectionAsked, PlanAsked
from breakglass.screens.plan import PlanScreen
from breakglass.services.errors import ClusterError
from tests.kit.incidents import hostile_names
from tests.screens.consoles import console_on
from tests.screens.turns import is_inert, opens, shows

HOSTILE_ERROR = ClusterError(
    "\x1b]0;owned\x07[bold red]broker[/] said\r\n\u202eno\u2069 \x9b2J" + "A" * 100_000
)


async def test_every_screen_is_inert_in_every_size_about_hostile_partitions_too() -> None:
    """The second refresh fails with a hostile sentence."""
    hostile = console_on(hostile_names(), HOSTILE_ERROR)
    async with hostile.run_test(size=(80, 24), notifications=True) as pilot:
        await shows(pilot, "2 offline")
        await pilot.press("ctrl+r")
        for mode in MODES:
            await hostile.switch_mode(mode)
            await shows(pilot, "[bold red]broker[/]")
            for size in ((60, 20), (160, 50), (80, 24)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                assert is_inert(hostile), mode
        incident = hostile.context.known.incident
        assert incident is not None
        partitions = [row.partition for row in incident.rows]
        asked = PlanAsked(partitions), DiffAsked(partitions[0]), ElectionAsked(partitions)
        for message, kind in zip(asked, (PlanScreen, DiffScreen, ElectScreen), strict=True):
            hostile.post_message(message)
            await opens(pilot, kind)
            assert is_inert(hostile)
            await pilot.press("escape")
