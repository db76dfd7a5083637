"""Writes the screens at the end of `docs/recover.md`, as real brokers showed them.

.venv/bin/python -m tests.lab.recover.bomb.page
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.lab.recover.bomb.story import Told, tell

PAGE = Path(__file__).parents[4] / "docs" / "recover.md"
HEADING = "hold older copies, and b3 is down.\n"
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


SCENES = (
    Scene(
        "bomb: list",
        "b4 runs again with an empty disk, and the controller may elect it at any moment. The "
        "top of the screen names the broker that you must stop, and then the step that helps most.",
        ("FIRST stop b4 NOW: BOMB on 3.", "then start b3", "BOMB stop b4 NOW"),
    ),
    Scene(
        "stopped: list",
        "The operator stopped b4 in time. Breakglass remembers that b4's log was empty: electing "
        "b1 loses nothing that a readable replica holds.",
        ("SAFE elect b1", "keep b4 down"),
    ),
    Scene(
        "seen: list",
        "On another night b1 died as well, and somebody started b4. The controller elected b4 "
        "and b2 truncated its log. `carts` is online with an empty log. Only b1's disk, which is "
        "down, still has its records: do not start b1 before its log folders are copied.",
        ("b4 was elected EMPTY", "carts-0..2 went from 125 to 0", "b2 has been truncated"),
    ),
)


def page(told: Told) -> str:
    """The page as it is, with the screens of *told* at its end."""
    text, heading, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    return text + heading + "\n".join(_lines(told)) + "\n"


def _lines(told: Told) -> Iterator[str]:
    for scene in SCENES:
        yield from ("", scene.about, "", "```text")
        frame = told.frames[scene.frame]
        for pattern, instead in STEADY.items():
            frame = re.sub(pattern, instead, frame)
        yield frame.rstrip()
        yield "```"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(tell(Path(folder))), encoding="utf-8")
