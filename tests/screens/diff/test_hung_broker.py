"""Brokers that take requests and never answer: neither leaving nor quitting waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from breakglass.screens.diff import DiffScreen
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.session import ReadAccess
from tests.kit.fake_broker import FakeBroker
from tests.kit.incidents import diverged_incident
from tests.screens.consoles import console_on, watch_of
from tests.screens.turns import text, until

pytestmark = pytest.mark.usefixtures("bare_pages")

QUIT_SECONDS = 1.0


@pytest.fixture
def hung() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        broker.hung = True
        yield broker


async def test_quitting_ends_the_wait_for_a_hung_broker(hung: FakeBroker) -> None:
    access = ReadAccess(ConnectionSettings((hung.endpoint,)))
    console = console_on(diverged_incident(), access=access)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        partition = diverged_incident().rows[0].partition
        await console.push_screen(DiffScreen(console.context, partition))
        await until(pilot, lambda: hung.frames > 0, "a request")
        assert "Reading around offset 100. Esc stops it." in text(console)
        begun = time.monotonic()
        await pilot.press("q")
    assert time.monotonic() - begun < QUIT_SECONDS
    hung.wait_for(lambda: hung.open == 0, "the end of the connection")


async def test_leaving_does_not_wait_for_a_hung_broker(hung: FakeBroker) -> None:
    access = ReadAccess(ConnectionSettings((hung.endpoint,)))
    console = console_on(diverged_incident(), access=access)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        screen = DiffScreen(console.context, diverged_incident().rows[0].partition)
        await console.push_screen(screen)
        await until(pilot, lambda: hung.frames > 0, "a request")
        begun = time.monotonic()
        await pilot.press("escape", "escape")
        await until(pilot, lambda: console.screen is not screen, "the screen before")
        assert time.monotonic() - begun < QUIT_SECONDS
        await pilot.press("q")
    assert time.monotonic() - begun < 2 * QUIT_SECONDS


async def test_impatience_with_a_hung_broker_takes_no_more_than_two_threads(
    hung: FakeBroker,
) -> None:
    access = ReadAccess(ConnectionSettings((hung.endpoint,)))
    console = console_on(diverged_incident(), access=access)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        screen = DiffScreen(console.context, diverged_incident().rows[0].partition)
        await console.push_screen(screen)
        await until(pilot, lambda: hung.frames > 0, "a request")
        await pilot.press(*["d", "c", "escape", "n"] * 3)
        reading = [thread for thread in threading.enumerate() if thread.name.startswith("diff")]
        assert len(reading) <= 2
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(watch_of(console).asked) == 2, "a refresh beside it")
        await pilot.press("q")
