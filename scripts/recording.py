"""Record the demo as it is played in the console: `make recording`.

A real cluster is broken, the console opens on it in a terminal of 100x30, and the keys below are
typed. What the program writes is kept with its moments as an asciinema cast (version 2), long
pauses cut, and drawn as an SVG.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts import cast_svg
from tests.terminal.pty_terminal import PtyTerminal

COLUMNS, LINES = 100, 30
BREAK_SECONDS, ELECT_SECONDS, LOOK_SECONDS = 600.0, 120.0, 2.5
LONGEST_PAUSE = 2.0
"""Longer ones, while brokers start, are cut to this."""
KEY_SECONDS = 0.12
BOMB = 4
"""The broker that came back with an empty disk."""
STATE = re.compile(r"--state (\S+)")
PHRASE = re.compile(r"Type to confirm: (.+?) *$", re.MULTILINE)


FIELD = re.compile(r"^ *> +type it here", re.MULTILINE)
"""The field for the phrase, still empty, where it has the focus."""


class RecordedTerminal(PtyTerminal):
    """A terminal that keeps what is written with its moment."""

    def __init__(self, command: Sequence[str | Path], env: dict[str, str]) -> None:
        self.written: list[tuple[float, bytes]] = []
        super().__init__(command, columns=COLUMNS, rows=LINES, env=env)

    def _draw(self, content: bytes) -> None:
        self.written.append((time.monotonic(), content))
        super()._draw(content)

    def look(self, seconds: float = LOOK_SECONDS) -> None:
        """Leave time to read what is on the screen."""
        self._never.wait(seconds)

    def type_slowly(self, text: str) -> None:
        """Type *text* as a person does."""
        self.send_slowly([letter.encode() for letter in text], KEY_SECONDS)


def play(terminal: RecordedTerminal, breakglass: Path) -> None:
    """The demo from its beginning to its end, by keys."""
    terminal.wait_for("Press Enter to open the console", BREAK_SECONDS)
    state = STATE.search(terminal.text)
    assert state is not None, terminal.text
    terminal.look()
    terminal.press("enter")
    terminal.wait_for("BOMB", ELECT_SECONDS)
    terminal.look(2 * LOOK_SECONDS)
    # The first thing to do: stop the broker that came back empty. Another terminal does that.
    kill = [str(breakglass), "lab", "kill", str(BOMB), "--state", state[1]]
    subprocess.run(kill, check=True, capture_output=True)
    terminal.wait_for("2 fenced", ELECT_SECONDS)
    terminal.look(2 * LOOK_SECONDS)
    terminal.press("b")
    terminal.look()
    terminal.type_slowly("3 4")
    terminal.press("enter")
    terminal.look(2 * LOOK_SECONDS)
    terminal.press("*")
    terminal.look()
    terminal.press("e")
    _elect(terminal)
    terminal.press("q")
    assert terminal.exit_code(ELECT_SECONDS) == 0


def _elect(terminal: RecordedTerminal) -> None:
    """Type each phrase that is asked for, and wait for the end of the elections."""
    typed = ""

    def asks_or_ends() -> bool:
        return "Done: " in terminal.text or _asked(terminal) not in ("", typed)

    while True:
        terminal.until(asks_or_ends, "a phrase, or the end", ELECT_SECONDS)
        if "Done: " in terminal.text:
            break
        typed = _asked(terminal)
        _consent(terminal, typed)
    terminal.look(2 * LOOK_SECONDS)


def _consent(terminal: RecordedTerminal, phrase: str) -> None:
    """Read *phrase*, go to its field, and type it."""
    typed = re.compile(rf"^ *> +{re.escape(phrase)}", re.MULTILINE)
    terminal.look()
    if not FIELD.search(terminal.text):
        terminal.press("tab")
        terminal.until(lambda: FIELD.search(terminal.text), "the field", ELECT_SECONDS)
    terminal.type_slowly(phrase)
    terminal.until(lambda: typed.search(terminal.text), "the phrase as typed", ELECT_SECONDS)
    terminal.press("enter")


def _asked(terminal: RecordedTerminal) -> str:
    found = PHRASE.search(terminal.text)
    return "" if found is None else found[1]


def cut(written: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, str]]:
    """What was written, from 0 on, with its long pauses cut; characters in pieces are joined."""
    at, before, left = 0.0, written[0][0], b""
    for moment, content in written:
        at += min(moment - before, LONGEST_PAUSE)
        before = moment
        whole = left + content
        text = whole.decode("utf-8", "ignore")
        left = whole[len(text.encode()) :]
        yield round(at, 3), text


def cast_of(written: Sequence[tuple[float, bytes]]) -> str:
    """The lines of a cast."""
    header = {"version": 2, "width": COLUMNS, "height": LINES, "title": "breakglass lab demo"}
    events = ([at, "o", text] for at, text in cut(written))
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *events))


def main() -> int:
    """Record, draw, and print the sizes of both files."""
    breakglass = Path(sys.executable).with_name("breakglass")
    with tempfile.TemporaryDirectory(prefix="breakglass-", dir="/tmp") as folder:
        env = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "TMPDIR": "/tmp",  # noqa: S108 - the folder is seen in the recording
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        with RecordedTerminal((breakglass, "demo"), env) as terminal:
            play(terminal, breakglass)
    cast_svg.IMAGES.mkdir(exist_ok=True)
    cast_svg.CAST.write_text(cast_of(terminal.written), encoding="utf-8")
    code = cast_svg.main(())
    for path in (cast_svg.CAST, cast_svg.SVG):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    return code


if __name__ == "__main__":
    sys.exit(main())
