"""What a browser's console lets through: looking, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.console.web.session import ANSWER, HARMLESS, SHOWN, WebConsole, session_environment
from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from tests.incidents import every_verdict
from tests.screens.canned_access import CannedAccess
from tests.screens.consoles import console_on
from tests.screens.turns import text, until

FILES = ("save", "open", "write", "edit_text", "approve", "rescue", "resume", "screenshot")
CHANGES = ("elect", "rescue", "plan", "resume", "check", "suspend_process", "undo")


def web_console(start: str, state: Path) -> WebConsole:
    canned = console_on(every_verdict(), access=CannedAccess().as_access, state_folder=state)
    return WebConsole(canned.context, theme="breakglass-dark", start=start)


def said(console: WebConsole) -> int:
    """How often it was answered that the dashboard is read-only."""
    return sum(one.message == ANSWER for one in console._notifications)


@pytest.mark.parametrize("start", sorted(SHOWN))
async def test_every_key_of_its_screens_looks_or_is_answered(start: str, tmp_path: Path) -> None:
    console = web_console(start, tmp_path)
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "13 offline" in text(console), "what is known")
        screen = console.screen
        bindings = {one.binding.key: one.binding.action for one in screen.active_bindings.values()}
        answered: list[str] = []
        for key, action in bindings.items():
            name = action.rpartition(".")[2].partition("(")[0]
            if name in HARMLESS or name in ("show", "open"):
                continue
            answered.append(name)
            await pilot.press(key)
            await until(pilot, lambda: said(console) == len(answered), f"an answer to {key}")
            assert console.screen is screen, key
        assert set(answered) >= {"screenshot", "suspend_process"}
        assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("action", ["show('plan')", "show('journal')", *FILES, *CHANGES])
async def test_what_touches_files_or_the_cluster_is_answered(action: str, tmp_path: Path) -> None:
    console = web_console("offline", tmp_path)
    async with console.run_test() as pilot:
        await until(pilot, lambda: "13 offline" in text(console), "what is known")
        screen = console.screen

        assert await console.run_action(action, screen)

        await until(pilot, lambda: said(console) == 1, "the answer")
        assert console.screen is screen


def test_a_session_is_told_how_to_connect_and_never_to_write() -> None:
    options = ConnectionOptions(bootstrap_server="b1:9092", broker_address=("1=localhost:1",))

    (told,) = session_environment(Connection(options, "off", write=True), (3,), "nord").values()

    assert '"bootstrap_server": "b1:9092"' in told
    assert "write" not in told
