"""A key waits until the app has done what the key before it asked for, stuck widgets excepted."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.events import Key
from textual.widgets import Input, Static
from typing_extensions import override

from breakglass.console import key_order
from breakglass.console.key_order import wait_until_settled

BUSY_SECONDS = 1.5
"""Longer than any wait that counts seconds could be; what takes longer still fails nothing."""


class Listed(Static):
    """Passes keys on, after the machine was busy with something else."""

    can_focus = True

    def on_key(self, event: Key) -> None:
        if event.key == "slash":
            Event().wait(BUSY_SECONDS)


class Filtered(App[None]):
    """A list and its field, which `/` focuses, as `FilteredPage` does."""

    BINDINGS: ClassVar = [("slash", "filter", "filter"), ("s", "stick", "stick")]

    def __init__(self) -> None:
        super().__init__()
        self.never = asyncio.Event()

    @override
    def compose(self) -> ComposeResult:
        with Vertical():
            yield Listed("list")
            yield Input()

    def action_filter(self) -> None:
        self.query_one(Input).focus()

    def action_stick(self) -> None:
        self.query_one(Listed).call_later(self.never.wait)


async def type_keys(app: App[None], *keys: str) -> None:
    """Type *keys* as a driver does: from its own thread, each after the app has settled."""
    loop, ending = asyncio.get_running_loop(), Event()

    def read() -> None:
        for key in keys:
            loop.call_soon_threadsafe(app.simulate_key, key)
            wait_until_settled(app, loop, ending)

    await asyncio.to_thread(read)


async def test_a_key_after_a_slow_key_goes_where_the_slow_key_led() -> None:
    async with Filtered().run_test() as pilot:
        pilot.app.query_one(Listed).focus()
        await pilot.pause()

        await type_keys(pilot.app, "slash", *"typed")
        await pilot.pause()

        assert pilot.app.query_one(Input).value == "typed"


async def test_a_widget_that_is_stuck_does_not_eat_the_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_order, "MOST_LOOKS", 2)
    app = Filtered()
    async with app.run_test() as pilot:
        app.query_one(Listed).focus()
        await pilot.pause()

        await type_keys(app, "s", "s")

        app.never.set()


async def test_no_key_waits_once_the_session_ends() -> None:
    app = Filtered()
    async with app.run_test() as pilot:
        app.query_one(Listed).focus()
        await pilot.pause()
        app.simulate_key("s")
        await pilot.pause()
        ending = Event()
        ending.set()

        await asyncio.to_thread(wait_until_settled, app, asyncio.get_running_loop(), ending)

        app.never.set()
