"""One key at a time: the next one waits until what the last one did has been done.

Over a slow link a whole word comes in one packet. Textual hands each key to the widget that has
the focus at that moment, so the `e` of `/orders` would be a command of the list before the filter
has the focus. Here each key waits, in the thread that reads them, until the app has settled.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any

from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from textual.app import App

LOOK_SECONDS = 0.02
"""How soon the end is noticed while a key waits; the end waits for the thread that waits here."""
MOST_LOOKS = 250
"""Looks of the loop at a widget that does not answer: such a widget must not eat keys. Looks count
and seconds do not, because a busy machine delays the loop and the widget alike."""
PASSES = 4
"""A key may open a screen, which gives a widget the focus."""


def wait_until_settled(app: App[Any], loop: asyncio.AbstractEventLoop, ending: Event) -> None:
    """In the thread that reads keys: return when *app* has done what the last key asked for."""
    settled = asyncio.run_coroutine_threadsafe(_settled(app), loop)
    while loop.is_running() and not ending.is_set():
        try:
            settled.result(LOOK_SECONDS)
        except concurrent.futures.TimeoutError:
            continue
        except concurrent.futures.CancelledError:
            pass
        return
    settled.cancel()


async def _settled(app: App[Any]) -> None:
    """Follow a key's way through the queues until it leads nowhere new, or a widget is stuck."""
    before: object = None
    for _ in range(PASSES):
        for pump in _way_of_a_key(app):
            if not await _caught_up(pump):
                return
        now = (app.screen_stack[-1:], app.focused if app.screen_stack else None)
        if now == before:
            return
        before = now


def _way_of_a_key(app: App[Any]) -> Iterator[MessagePump]:
    """The app, the widget with the focus, those around it, and the app again."""
    yield app
    if app.screen_stack:
        focused = app.focused or app.screen
        yield from focused.ancestors_with_self
    yield app


async def _caught_up(pump: MessagePump) -> bool:
    """Wait until *pump* has handled every message it has, or is gone; False: it is stuck."""
    done = asyncio.Event()
    if not pump.call_later(done.set):
        return True
    for _ in range(MOST_LOOKS):
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await done.wait()
        if done.is_set() or not pump.is_running:
            return True
    return False
