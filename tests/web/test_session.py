"""What a browser's console lets through: looking, and nothing else."""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from breakglass.console.app import MODES
from breakglass.console.web.session import (
    ABOVE,
    ABOVE_OF_RECORDS,
    ANSWER,
    HARMLESS,
    NO_RECORDS,
    OF_RECORDS,
    WebConsole,
    session_environment,
)
from breakglass.console.wiring import Connection
from breakglass.screens.browse.records import RecordsScreen
from breakglass.services.connection.sources import ConnectionOptions
from tests.kit.extent import others_slow
from tests.screens.consoles import watch_of
from tests.screens.every_key import press_every_key
from tests.screens.turns import shows, until
from tests.web.full_console import BACKUPS, full_console, furnish

pytestmark = pytest.mark.usefixtures("keys_without_clocks")

FILES = ("save", "open", "write", "edit_text", "approve", "rescue", "resume", "screenshot")
CHANGES = ("elect", "rescue", "plan", "resume", "check", "suspend_process", "undo", "take")
SIZE = (120, 40)
SHOWN = {
    "1": "Log dirs",
    "3": "No plan yet",
    "4": "recovery of 4 partitions",
    "5": "unverified",
    "6": "orders",
    "7": "no command topic",
    "8": "completed",
}
"""What each screen shows by its key."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    furnish(tmp_path)
    return tmp_path


def content(folder: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def said(console: WebConsole, words: str = ANSWER) -> int:
    return sum(notification.message == words for notification in console._notifications)


@pytest.mark.parametrize("start", others_slow(MODES, "offline"))
async def test_every_key_of_its_screens_looks_or_is_answered(start: str, folder: Path) -> None:
    before = content(folder)
    console = full_console(folder, start=start)
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "13 offline")
        screen = console.screen
        answered: list[str] = []
        for key, active in screen.active_bindings.items():
            name = active.binding.action.rpartition(".")[2].partition("(")[0]
            if name in HARMLESS or name == "open" or not active.enabled:
                continue
            answered.append(name)
            await pilot.press(key)
            await until(pilot, lambda: said(console) == len(answered), f"an answer to {key}")
            assert console.screen is screen, key
        assert set(answered) >= {"screenshot", "suspend_process"}
    assert content(folder) == before


@pytest.mark.parametrize("mode", others_slow(MODES, "offline"))
async def test_whatever_is_pressed_nothing_changes(mode: str, folder: Path) -> None:
    before = content(folder)
    console = full_console(folder, records=True)
    opened: set[str] = set()
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "13 offline")
        pressed = await press_every_key(pilot, mode)
        opened |= pressed.keys()
        watch = watch_of(console)
        assert (watch.gone, watch.agreed_to) == ((), {})
    names = {place.partition(":")[2] for place in (*MODES.values(), *ABOVE, *ABOVE_OF_RECORDS)}
    assert opened - {"CommandPalette"} <= names
    assert content(folder) == before


async def test_each_screen_is_there_and_what_touches_files_or_the_cluster_is_answered(
    folder: Path,
) -> None:
    console = full_console(folder)
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "13 offline")
        for key, words in SHOWN.items():
            await pilot.press(key)
            await shows(pilot, words)
        assert len(console.screen_stack) == 1, "no election that stopped is offered"
        assert said(console) == 0
        await pilot.press("2")
        await shows(pilot, "13 offline")
        screen = console.screen
        for number, action in enumerate((*FILES, *CHANGES), 1):
            assert await console.run_action(action, screen)
            await until(pilot, lambda number=number: said(console) == number, action)  # type: ignore[misc]
            assert console.screen is screen


async def test_a_plan_can_be_made_to_be_looked_at(folder: Path) -> None:
    console = full_console(folder, start="plan")
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "13 offline")
        await pilot.press("p")
        await shows(pilot, "ledger-3")
        await pilot.press("enter")
        await until(pilot, lambda: said(console) == 1, "the answer to a choice of leader")
        await pilot.press("e")
        await until(pilot, lambda: said(console) == 2, "the answer to an election")


@pytest.mark.parametrize("records", [False, True])
async def test_what_records_hold_is_shown_where_the_operator_says_so(
    folder: Path, *, records: bool
) -> None:
    console = full_console(folder, start="browse", records=records)
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "orders")
        await pilot.press("down", "right")
        await shows(pilot, "partition 0")
        await pilot.press("down", "r")
        if not records:
            await until(pilot, lambda: said(console, NO_RECORDS) == 1, "the answer")
            assert len(console.screen_stack) == 1
            return
        await until(pilot, lambda: isinstance(console.screen, RecordsScreen), "the records")
        await pilot.press("x")
        await until(pilot, lambda: said(console) == 1, "the answer to an export")


def test_the_lists_name_what_exists() -> None:
    for place in ABOVE | ABOVE_OF_RECORDS:
        module, _, name = place.partition(":")
        assert hasattr(import_module(f"breakglass.screens.{module}"), name)
    assert set() == HARMLESS & OF_RECORDS


def test_a_session_is_told_how_to_connect_and_what_to_show_and_never_to_write() -> None:
    options = ConnectionOptions(bootstrap_server="b1:9092", broker_address=("1=localhost:1",))
    connection = Connection(options, "off", write=True)
    (told,) = session_environment(connection, (3,), "nord", [BACKUPS], records=True).values()
    assert '"bootstrap_server": "b1:9092"' in told
    assert json.loads(told)["stores"] == [BACKUPS]
    assert json.loads(told)["records"] is True
    assert "write" not in told
