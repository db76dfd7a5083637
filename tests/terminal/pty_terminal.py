"""A terminal for tests: a program runs on it as on an operator's, and what it shows can be read.

The program has a pseudo-terminal as its controlling one. What it writes is drawn by pyte; which
modes it left switched on is read from the same bytes, for pyte knows no second screen.
"""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyte

from tests.kit.waiting import DEADLINE_SECONDS

SPLIT_SECONDS = 0.25
"""Longer than Textual waits for the rest of an escape sequence."""
FRAME_SECONDS = 0.02
"""A little longer than Textual waits between two frames."""
KEYS = {
    "enter": b"\r",
    "escape": b"\x1b",
    "tab": b"\t",
    "shift+tab": b"\x1b[Z",
    "backspace": b"\x7f",
    "space": b" ",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "delete": b"\x1b[3~",
    "f1": b"\x1bOP",
}
PRIVATE_MODES = {
    7: "line wrap",
    25: "cursor",
    1000: "mouse",
    1002: "mouse drag",
    1003: "mouse moves",
    1004: "focus",
    1006: "mouse sgr",
    1015: "mouse urxvt",
    1049: "second screen",
    2004: "bracketed paste",
    2048: "resize reports",
}
MANY_FRAMES = [KEYS["end"], KEYS["home"]] * 40
AFTER_ALL = b"\x00"
"""What no program writes, and nothing draws."""
AT_REST = {"line wrap": True, "cursor": True}
"""The modes of a terminal at a shell's prompt; all others are off."""
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes stdin the controlling terminal of a new session, then becomes the program."""
_MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
_KITTY = re.compile(rb"\x1b\[([<>])\d*u")
UNDRAWN = re.compile(rb"\x1b\[[<>=?][\d;]*(?:\$p|u)")
"""Queries and the kitty keyboard protocol, which pyte would draw a part of."""
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*)?\Z")


class PtyTerminal:
    """A program on a terminal of *columns* x *rows*; use it as a context."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = threading.Condition()
        self._raw = bytearray()
        self._tail = b""
        self._master, slave = os.openpty()
        self._set_size(columns, rows)
        self.lines_before = termios.tcgetattr(slave)
        self._slave = slave
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", TAKE_TERMINAL, *(str(text) for text in command)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=dict(os.environ if env is None else env),
            start_new_session=True,
        )
        self._stalled = threading.Event()
        self._never = threading.Event()
        self._asked_to_let_go, self._let_go = os.pipe()
        self._reader = threading.Thread(target=self._read, name="pty-reader", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()

    @property
    def lines(self) -> list[str]:
        """What is on the screen, without trailing spaces."""
        with self._changed:
            return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def raw(self) -> bytes:
        with self._changed:
            return bytes(self._raw)

    @property
    def modes(self) -> dict[str, bool]:
        """Which modes are on or off, as far as the program has said."""
        said: dict[str, bool] = {}
        raw = self.raw
        for numbers, letter in _MODE.findall(raw):
            for number in numbers.split(b";"):
                name = PRIVATE_MODES.get(int(number))
                if name is not None:
                    said[name] = letter == b"h"
        pushed = [kind for (kind,) in (match.groups() for match in _KITTY.finditer(raw))]
        if pushed:
            said["kitty keys"] = pushed.count(b">") > pushed.count(b"<")
        return said

    @property
    def left_over(self) -> list[str]:
        """What a shell's prompt would find wrong with the terminal now; empty: nothing."""
        wrong = [
            f"{name} {'on' if on else 'off'}"
            for name, on in self.modes.items()
            if on is not AT_REST.get(name, False)
        ]
        if termios.tcgetattr(self._slave) != self.lines_before:
            wrong.append("line discipline")
        return wrong

    def press(self, *keys: str) -> None:
        """Type *keys*: names such as ``enter``, ``ctrl+r``, or single characters."""
        for key in keys:
            self.send(_bytes_of(key))

    def type(self, text: str) -> None:
        self.press(*text)

    def type_phrase(self, phrase: str) -> None:
        """Type *phrase* as people do: Enter, if it comes next, is later than in a paste."""
        self.type(phrase)
        self.wait_for(f"> {phrase}")
        self._never.wait(SPLIT_SECONDS)

    def send(self, content: bytes) -> None:
        os.write(self._master, content)

    def send_slowly(self, pieces: Sequence[bytes], gap_seconds: float) -> None:
        """Write *pieces* as a slow link delivers them: apart."""
        for piece in pieces:
            self.send(piece)
            self._never.wait(gap_seconds)

    def stall(self) -> None:
        self._stalled.set()

    def flow(self) -> None:
        self._stalled.clear()
        os.write(self._let_go, b"f")

    def resize(self, columns: int, rows: int) -> None:
        """Change the size; the program gets SIGWINCH from the kernel."""
        with self._changed:
            self._screen.resize(rows, columns)
        self._set_size(columns, rows)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def hang_up(self) -> None:
        """Take the terminal away, as a lost ssh connection does: SIGHUP, then errors."""
        if self._master < 0:
            return
        os.close(self._let_go)
        self._reader.join()
        for descriptor in (self._slave, self._master, self._asked_to_let_go):
            os.close(descriptor)
        self._master = self._slave = -1

    def wait_for(self, text: str, seconds: float = DEADLINE_SECONDS) -> None:
        self.until(lambda: text in self.text, f"{text!r} on the screen", seconds)

    def wait_gone(self, text: str) -> None:
        self.until(lambda: text not in self.text, f"no {text!r} on the screen")

    def until(self, so: Callable[[], object], what: str, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait until *so*, looked at whenever the program has written; fails with the screen."""
        end = time.monotonic() + seconds
        while not so():
            left = end - time.monotonic()
            assert left > 0, f"waited {seconds:g} s in vain: {what}\n{self._story()}"
            with self._changed:
                self._changed.wait(min(left, 0.05))

    def exit_code(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Wait for the end; a negative number is the signal that killed the program."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:g} s\n{self._story()}") from None
        if self._master >= 0:
            # What the program wrote may still be on its way; this comes after it.
            os.write(self._slave, AFTER_ALL)
            self.until(lambda: AFTER_ALL in self.raw, "the last bytes")
        return code

    def _story(self) -> str:
        code = self.process.poll()
        state = "running" if code is None else f"ended with {code}"
        return f"The program is {state}; the screen:\n{self.text}\n{self.raw[-400:]!r}"

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        """In a thread: draw what comes until the terminal is given up."""
        while True:
            wanted = [] if self._stalled.is_set() else [self._master]
            ready, _, _ = select.select([*wanted, self._asked_to_let_go], [], [])
            if self._asked_to_let_go in ready and not os.read(self._asked_to_let_go, 1):
                return
            if self._master not in ready:
                continue
            content = os.read(self._master, 65_536)
            with self._changed:
                self._raw += content
                self._draw(content)
                self._changed.notify_all()

    def _draw(self, content: bytes) -> None:
        content = self._tail + content
        unfinished = _UNFINISHED.search(content)
        self._tail = unfinished.group() if unfinished else b""
        whole = content[: len(content) - len(self._tail)]
        self._stream.feed(UNDRAWN.sub(b"", whole))


def _bytes_of(key: str) -> bytes:
    if key in KEYS:
        return KEYS[key]
    if key.startswith("ctrl+") and len(key) == 6:
        return bytes([ord(key[-1].upper()) & 0x1F])
    assert len(key) == 1, f"no key is called {key!r}"
    return key.encode()
