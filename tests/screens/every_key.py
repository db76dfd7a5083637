"""Pressing every key of every screen, as a cat on the keyboard would."""

from collections.abc import Iterator
from typing import Any

from textual.pilot import Pilot

from breakglass.console.app import MODES, BreakglassApp
from tests.screens.turns import strips

LEAVING = frozenset(("q", "ctrl+q", "ctrl+c", "super+c", "ctrl+z"))
"""Keys that end or stop the session: they are tested by themselves."""
WAYS_BACK = 6


def keys_here(console: BreakglassApp) -> Iterator[str]:
    """Every key that the screen on top answers to, in a fixed order."""
    told = set(console.screen.active_bindings) - LEAVING
    yield from sorted(told)


async def press_every_key(pilot: Pilot[Any], *modes: str) -> dict[str, list[str]]:
    """Press every key on each of *modes*, and on whatever opens then; what was pressed where.

    Screens are named by their class. After each key the main screen is shown again.
    """
    console = pilot.app
    assert isinstance(console, BreakglassApp)
    pressed: dict[str, list[str]] = {}
    for mode in modes or tuple(MODES):
        await _show(pilot, mode)
        for key in list(keys_here(console)):
            await _show(pilot, mode)
            await _press(pilot, key, pressed)
            opened = console.screen
            if console.current_mode == mode and len(console.screen_stack) > 1:
                for inner in list(keys_here(console)):
                    if console.screen is opened:
                        await _press(pilot, inner, pressed)
    return pressed


async def _press(pilot: Pilot[Any], key: str, pressed: dict[str, list[str]]) -> None:
    pressed.setdefault(type(pilot.app.screen).__name__, []).append(key)
    await pilot.press(key)
    assert strips(pilot.app), "what it shows can be drawn"


async def _show(pilot: Pilot[Any], mode: str) -> None:
    console = pilot.app
    if console.current_mode != mode:
        await console.switch_mode(mode)
    for _ in range(WAYS_BACK):
        if len(console.screen_stack) == 1:
            break
        await pilot.press("escape")
    while len(console.screen_stack) > 1:
        await console.pop_screen()
    await pilot.pause()
