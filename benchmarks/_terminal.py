"""A program on a terminal of its own: keys go in, what is painted comes out with its time."""

from __future__ import annotations

import fcntl
import os
import pty
import queue
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyte

from benchmarks._measure import Program

COLUMNS, LINES = 80, 24
QUIET_SECONDS = 0.15
"""A program that has painted nothing for so long is done with what it was given to do."""
PATIENCE_SECONDS = 30.0
END_SECONDS = 5.0
MOST_BYTES = 1 << 16
STATUS_LINES = 2
"""Of our screens: they tell ages, and change by themselves."""
KILOBYTES_PER_MEGABYTE = 1000 * 1000 / 1024

Cells = tuple[Any, ...]
"""What stands in some lines of the screen, attributes included."""


class Chunk(NamedTuple):
    """Bytes that came at once."""

    at: float
    """time.perf_counter()."""
    data: bytes


class Memory(NamedTuple):
    """What a process holds, and the most it held. Megabytes."""

    now: float
    peak: float


class Terminal:
    """80 by 24 cells in 256 colours; a context manager that ends the program.

    It answers nothing that a program asks of its terminal, as many do not.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        """None: the program has closed its side."""

    def __enter__(self) -> Terminal:
        # What is painted gets its time from a thread; it must not wait for pyte's arithmetic.
        self._switching = sys.getswitchinterval()
        sys.setswitchinterval(0.0005)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        environment = {**(self.program.environment or os.environ), "TERM": "xterm-256color"}
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            list(map(str, self.program.command)),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(END_SECONDS)
        os.close(self._master)
        sys.setswitchinterval(self._switching)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        """What stands on the screen as far as it has been looked at."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def press(self, keys: str) -> float:
        """Write *keys*; returns when, by time.perf_counter()."""
        now = time.perf_counter()
        os.write(self._master, keys.encode())
        return now

    def wait_until(self, shown: Callable[[str], bool], patience: float = PATIENCE_SECONDS) -> float:
        """When the screen first held what *shown* looks for, by time.perf_counter().

        Raises:
            RuntimeError: it does not within *patience* seconds, with what it holds instead.
        """
        if shown(self.text):
            return time.perf_counter()
        give_up = time.monotonic() + patience
        while (chunk := self._next(give_up - time.monotonic())) is not None:
            self._stream.feed(chunk.data)
            if shown(self.text):
                return chunk.at
        raise RuntimeError(f"{self.program.name} never showed what was waited for:\n{self.text}")

    def settle(self, quiet: float = QUIET_SECONDS) -> None:
        """Wait until nothing has been painted for *quiet* seconds, below the status at least."""
        self._last_change(quiet)

    def watch(self, seconds: float) -> None:
        """Let the program be for *seconds*, and keep up with what it paints."""
        give_up = time.monotonic() + seconds
        while (chunk := self._next(give_up - time.monotonic())) is not None:
            self._stream.feed(chunk.data)

    def painted(self, keys: str, patience: float = PATIENCE_SECONDS) -> float:
        """Press *keys* and wait until all they change is painted; seconds to the last byte.

        What changes in the status alone is none of the keys' doing.

        Raises:
            RuntimeError: nothing changes within *patience* seconds.
        """
        pressed = self.press(keys)
        while time.perf_counter() < pressed + patience:
            last = self._last_change(QUIET_SECONDS)
            if last is not None:
                return last - pressed
        raise RuntimeError(f"{self.program.name} paints nothing for {keys!r}:\n{self.text}")

    def memory(self) -> Memory:
        """What the process holds now."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        kibibytes = dict(line.split(":", 1) for line in status.splitlines())
        now, peak = (int(kibibytes[text].split()[0]) for text in ("VmRSS", "VmHWM"))
        return Memory(now / KILOBYTES_PER_MEGABYTE, peak / KILOBYTES_PER_MEGABYTE)

    def cpu(self) -> float:
        """Seconds of processor time that the process has spent."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _read(self) -> None:
        """In a thread: stamp what comes."""
        try:
            while data := os.read(self._master, MOST_BYTES):
                self._chunks.put(Chunk(time.perf_counter(), data))
        except OSError:
            pass
        self._chunks.put(None)

    def _next(self, seconds: float) -> Chunk | None:
        """What is painted next; None: nothing in time.

        Raises:
            RuntimeError: the program has ended.
        """
        try:
            chunk = self._chunks.get(timeout=max(seconds, 0))
        except queue.Empty:
            return None
        if chunk is None:
            raise RuntimeError(f"{self.program.name} ended by itself:\n{self.text}")
        return chunk

    def _last_change(self, quiet: float) -> float | None:
        """When the last byte came that changed what is below the status; None: none did.

        Returns once *quiet* seconds have passed without such a byte.
        """
        last, before, until = None, self._cells(), time.perf_counter() + quiet
        while (chunk := self._next(until - time.perf_counter())) is not None:
            self._stream.feed(chunk.data)
            now = self._cells()
            if now != before:
                before, last, until = now, chunk.at, chunk.at + quiet
        return last

    def _cells(self) -> Cells:
        lines = range(STATUS_LINES, LINES)
        buffer = self._screen.buffer
        return tuple(buffer[line][column] for line in lines for column in range(COLUMNS))
