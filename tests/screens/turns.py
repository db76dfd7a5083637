"""Waiting on a screen: turns of its loop until something is so, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

from tests.kit.waiting import within

DEADLINE_SECONDS = 10.0


async def until(pilot: Pilot[Any], so: Callable[[], object], what: str) -> None:
    """Give the app turns until *so*; fails saying that *what* did not come."""
    seconds = within(DEADLINE_SECONDS)
    end = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < end, f"waited {seconds:.0f} s in vain: {what}"
        await pilot.pause(0.01)


def lines(app: Any) -> list[str]:
    """What the app's screen shows, line by line, without trailing spaces."""
    from rich.segment import Segment

    strips = app.screen._compositor.render_strips()
    return [
        "".join(segment.text for segment in Segment.simplify(strip)).rstrip() for strip in strips
    ]


def text(app: Any) -> str:
    """What the app's screen shows."""
    return "\n".join(lines(app))
