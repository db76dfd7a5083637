"""Waiting on a screen: turns of its loop until something is so, whatever time they take."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from rich.segment import Segment
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from breakglass.screens.widgets import consent
from tests.kit.waiting import DEADLINE_SECONDS

QUIET_TURNS = 3
RENDER_UPDATE = Compositor.render_update


class Frames:
    """Frames that the console wanted to be drawn: until the next a screen shows what it does."""

    wanted, counted = 0, False


async def until(pilot: Pilot[Any], so: Callable[[], object], what: str) -> None:
    """Give the app turns until *so*; fails saying that *what* did not come."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not so():
        if time.monotonic() > end:
            pytest.fail(f"waited {DEADLINE_SECONDS:.0f} s in vain: {what}\n{text(pilot.app)}")
        await pilot.pause(0.01)


async def shows(pilot: Pilot[Any], words: str) -> None:
    """Wait until *words* are on the screen, wherever its lines are broken."""
    looked_at = -1

    def shown() -> bool:
        nonlocal looked_at
        if Frames.counted and looked_at == Frames.wanted and owes_nothing(pilot.app):
            return False
        looked_at, now = Frames.wanted, text(pilot.app)
        return words in now or words in " ".join(now.split())

    await until(pilot, shown, words)
    await rests(pilot)


async def rests(pilot: Pilot[Any]) -> None:
    """Wait until what came with the last words is laid out and drawn, too."""
    before = -1

    def drew_nothing() -> bool:
        nonlocal before
        now, last = Frames.wanted, before
        before = now
        return now == last and owes_nothing(pilot.app)

    await pilot.pause()
    await until(pilot, drew_nothing, "a screen at rest")


def owes_nothing(app: App[Any]) -> bool:
    """Whether nothing waits for its place or to be painted."""
    widgets = app.screen.walk_children(Widget, with_self=True)
    return not (
        app.screen._dirty_widgets
        or app.screen._repaint_required
        or any(widget._layout_required or widget._repaint_required for widget in widgets)
    )


async def hides(pilot: Pilot[Any], words: str) -> None:
    await until(pilot, lambda: words not in text(pilot.app), f"no {words}")


async def opens(pilot: Pilot[Any], kind: type[Any]) -> Any:
    await until(pilot, lambda: isinstance(pilot.app.screen, kind), kind.__name__)
    await rests(pilot)
    return pilot.app.screen


def strips(app: Any) -> list[Strip]:
    """What the app's screen shows, and what shows through from the screens below a dialog.

    Who draws a dialog first, be it the app or a test, sets what is kept of its background.
    """
    visible_screen_stack.set(app._background_screens)
    drawn: list[Strip] = app.screen._compositor.render_strips()
    return drawn


def lines(app: Any) -> list[str]:
    """What the app's screen shows, line by line, without trailing spaces."""
    return [
        "".join(segment.text for segment in Segment.simplify(strip)).rstrip()
        for strip in strips(app)
    ]


def line_with(app: Any, words: str) -> str:
    """The first line that has these *words*, or nothing."""
    return next((line for line in lines(app) if words in line), "")


def text(app: Any) -> str:
    return "\n".join(lines(app))


def flat(app: Any) -> str:
    """The same on one line, for sentences that are wrapped."""
    return " ".join(text(app).split())


def notices(app: Any) -> str:
    return " ".join(notification.message for notification in app._notifications)


def is_inert(app: Any) -> bool:
    """Whether no character on the screen would do something to a terminal."""
    return all(line.isprintable() for line in lines(app))


async def _no_task_can_go_on(*_: float) -> None:
    """Wait until every task waits for a timer, a thread or a key."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    quiet = 0
    while quiet < QUIET_TURNS:
        await asyncio.sleep(0)
        quiet = 0 if ready else quiet + 1


def _drawn_when_looked_at(compositor: Compositor, full: bool = False, **how: Any) -> Any:
    """Stand in for the drawing of each frame, which no terminal takes: `strips` draws one."""
    Frames.wanted += 1
    if full:
        return RENDER_UPDATE(compositor, full=True, **how)
    compositor._dirty_regions.clear()
    return None


@pytest.fixture
def keys_without_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is done with when no task can go on, and what a notice says stays.

    Textual's own pilot compares processor time with the time on the wall, and draws each frame.
    """
    monkeypatch.setattr(Compositor, "render_update", _drawn_when_looked_at)
    monkeypatch.setattr(Frames, "counted", True)
    monkeypatch.setattr(App, "NOTIFICATION_TIMEOUT", DEADLINE_SECONDS)
    # Keys of a pilot come faster than anybody types.
    monkeypatch.setattr(consent, "PASTE_SECONDS", 0.0)
    for module in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", _no_task_can_go_on)
    monkeypatch.setattr(Pilot._wait_for_screen, "__defaults__", (DEADLINE_SECONDS,))
