"""What all screens share: styles of a theme, figures with their time, hostile texts that are inert
and bounded, and no power to change a cluster in a read-only console.
"""

import gc
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import cast

import pytest
from textual.css.stylesheet import StylesheetParseError

from breakglass.console.app import MODES, BreakglassApp, KeptStylesheet
from breakglass.screens.diff.screen import DiffScreen
from breakglass.screens.elect.screen import ElectScreen
from breakglass.screens.messages import ClusterRead, DiffAsked, ElectionAsked, PlanAsked
from breakglass.screens.offline.screen import OfflineScreen
from breakglass.screens.overview import OverviewScreen
from breakglass.screens.plan.screen import PlanScreen
from breakglass.services.errors import ClusterError
from breakglass.services.kafka.admin_client import GroupClient
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.session import Power, ReadAccess
from breakglass.themes.palettes import PALETTES
from tests.kit.clock import Clock
from tests.kit.extent import others_slow
from tests.kit.incidents import bomb, every_verdict, hostile_names, incident_of
from tests.screens.consoles import console_on
from tests.screens.every_key import press_every_key
from tests.screens.turns import flat, is_inert, opens, shows, until

DARK, LIGHT = "breakglass-dark", "breakglass-light"


def test_a_source_that_is_wrong_leaves_the_rules_that_were_there() -> None:
    sheet = KeptStylesheet(variables=PALETTES[0].variables)
    sheet.add_source("Label { color: red; }")
    before = sheet.rules
    sheet.add_source("Label { colour: }")
    with pytest.raises(StylesheetParseError):
        sheet.reparse()
    assert sheet._rules == before


FIRST = 1
"""The refresh that a console begins with."""
SLOW_SECONDS = 8.0
"""What brokers take to tell their replicas after the metadata was read."""


async def test_late_evidence_is_as_old_as_its_metadata_and_none_is_an_error_while_leaving() -> None:
    clock, incident, later = Clock(), incident_of(bomb(0)), incident_of(bomb(0))
    console = console_on(incident, clock=clock)
    known = console.context.known
    async with console.run_test() as pilot:
        await until(pilot, lambda: known.incident is incident and not known.reading, "the cluster")
        clock.advance(SLOW_SECONDS)
        console.post_message(ClusterRead(FIRST, later))
        await until(pilot, lambda: known.incident is later, "the evidence")
        assert known.age(clock()) == SLOW_SECONDS
        await pilot.press("ctrl+r")
        await until(pilot, lambda: known.read_at == clock.now, "the next")
        await until(pilot, lambda: not known.reading, "its end")
        screens = console._screen_stack
        shown = screens.copy()
        screens.clear()
        console._told(ClusterRead(FIRST + 1, incident))
        screens.extend(shown)


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


READS = api_keys.READ | {api_keys.API_VERSIONS}
CODE = (FunctionType, ModuleType, type)
"""Where definitions begin: what could be imported is not what is held."""


def reachable(start: object) -> Iterator[object]:
    """Every object that *start* leads to, but for code."""
    seen, ahead = {id(start)}, [start]
    while ahead:
        one = ahead.pop()
        yield one
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, CODE):
                seen.add(id(other))
                ahead.append(other)


def powers(console: BreakglassApp) -> list[object]:
    """Whatever *console* holds that could change a cluster."""
    return [
        one
        for one in reachable(console)
        if isinstance(one, Power | ElectionClient | GroupClient)
        or (isinstance(one, Sender) and not one.allowed <= READS)
    ]


@pytest.mark.parametrize("mode", others_slow(MODES, "offline"))
async def test_after_every_key_of_every_screen_nothing_that_can_change_a_cluster_exists(
    mode: str,
) -> None:
    console = console_on(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        pressed = await press_every_key(pilot, mode)
        assert len(pressed) > 1
        assert powers(console) == []
        armed = console_on(every_verdict(), power=Power(cast("ReadAccess", None)))
        assert powers(armed), "a power would be seen"


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
