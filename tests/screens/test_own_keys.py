"""Keys that the operator has replaced: they act, are shown, and never disturb what is typed."""

from breakglass.console.app import BreakglassApp
from breakglass.screens.elect.screen import ElectScreen
from breakglass.screens.offline.screen import OfflineScreen
from breakglass.screens.overview import OverviewScreen
from tests.kit.incidents import every_verdict
from tests.screens.consoles import console_on
from tests.screens.turns import flat, opens, shows

SIZE = (100, 30)


def console() -> BreakglassApp:
    """`F5` elects, `F2` shows the overview, `F1` the help, and `F3` filters."""
    return console_on(every_verdict(), keys={"e": "f5", "1": "f2", "?": "f1", "/": "f3"})


async def test_a_replaced_key_acts_and_the_default_does_nothing() -> None:
    async with console().run_test(size=SIZE) as pilot:
        await opens(pilot, OfflineScreen)
        await pilot.press("e", "1", "question_mark")
        assert isinstance(pilot.app.screen, OfflineScreen)
        await pilot.press("f2")
        await opens(pilot, OverviewScreen)
        await pilot.press("2")
        await opens(pilot, OfflineScreen)
        await shows(pilot, "carts")
        await pilot.press("f5")
        await opens(pilot, ElectScreen)
        await pilot.press("f2")
        assert isinstance(pilot.app.screen, ElectScreen), "where a phrase is typed, defaults stay"


async def test_help_and_the_last_line_name_the_operators_keys() -> None:
    async with console().run_test(size=SIZE) as pilot:
        await opens(pilot, OfflineScreen)
        await shows(pilot, "carts")
        assert "f1 help" in flat(pilot.app)
        await pilot.press("f1")
        await shows(pilot, "its keys")
        await shows(pilot, "f5")


async def test_text_is_typed_as_the_keyboard_has_it() -> None:
    async with console().run_test(size=SIZE) as pilot:
        await opens(pilot, OfflineScreen)
        await shows(pilot, "carts")
        await pilot.press("f3", "e", "f5", "1", "f2")
        await shows(pilot, "e1")
        assert isinstance(pilot.app.screen, OfflineScreen)
