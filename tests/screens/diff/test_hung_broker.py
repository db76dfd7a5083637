"""Brokers that take requests and never answer: neither leaving nor quitting waits for them.

They are waited for without end, so a console that waited would never leave.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.screens.diff import DiffScreen
from breakglass.services import patience
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.session import ReadAccess
from tests.kit.fake_broker import FakeBroker
from tests.kit.incidents import diverged_incident
from tests.screens.consoles import console_on, watch_of
from tests.screens.turns import shows, until

pytestmark = pytest.mark.usefixtures("bare_pages")

FOR_EVER = 1e6


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    for question in ("CONNECT", "REQUEST"):
        monkeypatch.setattr(patience, question, FOR_EVER)
    with FakeBroker() as broker:
        broker.hung = True
        yield broker


@asynccontextmanager
async def comparing(hung: FakeBroker) -> AsyncIterator[tuple[Pilot[Any], DiffScreen]]:
    """The comparison of two replicas, once it has asked the broker that hangs."""
    access = ReadAccess(ConnectionSettings((hung.endpoint,)))
    console = console_on(diverged_incident(), access=access)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        screen = DiffScreen(console.context, diverged_incident().rows[0].partition)
        await console.push_screen(screen)
        await until(pilot, lambda: hung.frames > 0, "a request")
        yield pilot, screen


async def test_quitting_ends_the_connection_to_a_hung_broker(hung: FakeBroker) -> None:
    async with comparing(hung) as (pilot, _):
        await shows(pilot, "Esc stops it.")
        await pilot.press("q")
    hung.wait_for(lambda: hung.open == 0, "the end of the connection")


async def test_leaving_does_not_wait_for_a_hung_broker(hung: FakeBroker) -> None:
    async with comparing(hung) as (pilot, screen):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: pilot.app.screen is not screen, "the screen before")
        await pilot.press("q")


async def test_impatience_with_a_hung_broker_takes_no_more_than_two_threads(
    hung: FakeBroker,
) -> None:
    async with comparing(hung) as (pilot, _):
        await pilot.press(*["d", "c", "escape", "n"] * 3)
        reading = [thread for thread in threading.enumerate() if thread.name.startswith("diff")]
        assert len(reading) <= 2
        await pilot.press("ctrl+r")
        asked = watch_of(pilot.app).asked  # type: ignore[arg-type]
        await until(pilot, lambda: len(asked) == 2, "a refresh beside it")
        await pilot.press("q")
