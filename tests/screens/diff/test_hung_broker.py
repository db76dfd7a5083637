"""Brokers that take requests and never answer: neither leaving nor quitting waits for them.

They are waited for without end, so a console that waited would never leave.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

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


async def test_neither_leaving_nor_quitting_nor_impatience_waits_for_a_hung_broker(
    hung: FakeBroker,
) -> None:
    access = ReadAccess(ConnectionSettings((hung.endpoint,)))
    console = console_on(diverged_incident(), access=access)
    partition = diverged_incident().rows[0].partition
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        left = DiffScreen(console.context, partition)
        await console.push_screen(left)
        await until(pilot, lambda: hung.frames > 0, "a request")
        await pilot.press(*["d", "c", "escape", "n"] * 3)
        reading = [thread for thread in threading.enumerate() if thread.name.startswith("diff")]
        assert len(reading) <= 2
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(watch_of(console).asked) == 2, "a refresh beside it")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: console.screen is not left, "the screen before")

        frames = hung.frames
        await console.push_screen(DiffScreen(console.context, partition))
        await until(pilot, lambda: hung.frames > frames, "another request")
        await shows(pilot, "Esc stops it.")
        await pilot.press("q")
    hung.wait_for(lambda: hung.open == 0, "the end of the connections")
