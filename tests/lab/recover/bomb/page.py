"""Writes `docs/replay.md` from what was shown while the story was played on real brokers.

.venv/bin/python -m tests.lab.recover.bomb.page
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.lab.recover.bomb.story import Told, tell

PAGE = Path(__file__).parents[4] / "docs" / "replay.md"
STEADY = {
    r"\d{4}-\d\d-\d\d": "2026-11-23",
    r"\d\d:\d\d:\d\d": "23:02:51",
    r"\d\d:\d\d:\d…": "23:02:5…",
    r"\b\d+ s ago": "1 s ago",
}
"""What differs from run to run, and what stands there on the page."""


class Scene(NamedTuple):
    """One screen of the page."""

    frame: str
    about: str
    words: tuple[str, ...]
    """What it is there for."""


FIRST = (
    Scene(
        "bomb: list",
        "b4 led `carts` last, lost its disk, and runs again. It is EMPTY, and next in line: what "
        "must be stopped stands first, then what helps most.",
        ("FIRST stop b4 NOW: BOMB on 3.", "then start b3", "BOMB stop b4 NOW"),
    ),
    Scene(
        "bomb: forecast",
        "`f`: what happens if nobody intervenes. No time is given, for none can be promised: the "
        "timer is the active controller's, and any broker that is unfenced sets off elections.",
        ("the controller may elect b4 at any moment", "stop b4 NOW"),
    ),
    Scene(
        "bomb: partition",
        "`Enter` on one of them: b1 holds 125 records, b2 100, b4 nothing.",
        ("stop b4 NOW", "b4 is back EMPTY and b1 holds records", "Each choice"),
    ),
    Scene(
        "stopped: list",
        "The operator stops b4, and it is fenced. The console remembers what b4 would have "
        "destroyed; b1 can be elected, and loses nothing.",
        ("SAFE elect b1", "keep b4 down"),
    ),
)
SECOND = (
    Scene(
        "before: b1 is away",
        "In another night b1 went down as well, before it was elected. b2 alone is left, with 100 "
        "records; what b1 reported is remembered.",
        ("3 fenced",),
    ),
    Scene(
        "seen: another's election",
        "Somebody runs `kafka-leader-election.sh` on `orders-0`: b2 leads, and lacks 25 records "
        "of b1.",
        (
            "orders-0 was elected by somebody else",
            "b2 leads with 100 records, b1 had 125",
            "25 records are only on b1, not truncated yet; do not start b1",
        ),
    ),
    Scene(
        "seen: list",
        "Somebody starts b4. As soon as it is unfenced the controller elects it, and b2 follows "
        "it to nothing. `carts` is online, and every screen says at what price.",
        ("b4 was elected EMPTY", "carts-0..2 went from 125 to 0", "b2 has been truncated"),
    ),
    Scene(
        "seen: overview",
        "So does the overview, and the dashboard in a browser.",
        ("b4 was elected EMPTY", "! acknowledge"),
    ),
    Scene(
        "truncated: list",
        "Nobody copied b1's log folder; b1 is started, and truncated too. It could have been "
        "rescued until then.",
        ("b1 and b2 have been truncated",),
    ),
    Scene(
        "truncated: journal of orders",
        "`4`: the journal has both elections.",
        ("SEEN", "25 records", "b1 has been truncated"),
    ),
    Scene(
        "acknowledged: journal",
        "`!` takes note: the line on top goes, and the journal keeps it.",
        ("acknowledged", "Acknowledged by"),
    ),
)


def page(told: Told) -> str:
    """The page, with the screens of *told*."""
    return "\n".join(_lines(told)) + "\n"


def _lines(told: Told) -> Iterator[str]:
    yield "# Two incidents, screen by screen"
    yield ""
    yield "What a terminal of 80x24 showed on real brokers of Kafka 4.3.1, times made the same."
    yield "b1 and b2 missed parts of what was written, b3 is dead, and b4 has got a new disk."
    for title, scenes in (
        ("A time bomb, stopped in time", FIRST),
        ("The same bomb, gone off", SECOND),
    ):
        yield from ("", f"## {title}")
        for scene in scenes:
            yield from ("", scene.about, "", "```text")
            # frame as it is on the page.
            frame = told.frames[scene.frame]
            for pattern, instead in STEADY.items():
                frame = re.sub(pattern, instead, frame)
            yield frame.rstrip()
            yield "```"
    yield ""
    yield "What to do: [the runbook](runbook.md). What is seen: [the journal](journal.md)."


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(tell(Path(folder))), encoding="utf-8")
