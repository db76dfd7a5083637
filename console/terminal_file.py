"""The terminal as something to write to: it never raises, and at the end never waits for long."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

CHUNK = 4096
LOOK_SECONDS = 0.1
"""How soon the end is noticed while the terminal takes nothing."""


class TerminalFile:
    """Written to by one thread; *lost* is called there, once, when the terminal is gone."""

    def __init__(
        self, descriptor: int, lost: Callable[[], object], drained: Callable[[], object]
    ) -> None:
        self._descriptor = _own(descriptor)
        self._lost, self._drained = lost, drained
        self._end: float | None = None
        self.gone = False
        """Nothing is written any more."""

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> None:
        """Write *text*, waiting while the terminal takes nothing; dropped once it is gone."""
        content = text.encode("utf-8", "replace")
        while content and not self.gone:
            try:
                written = os.write(self._descriptor, content[:CHUNK])
            except BlockingIOError:
                self._wait()
            except OSError:
                self.gone = True
                self._lost()
            else:
                content = content[written:]

    def flush(self) -> None:
        """Called where there is nothing more to write."""
        self._drained()

    def give_up_in(self, seconds: float | None) -> None:
        """Drop what is not written within *seconds*; None: wait as long as it takes."""
        self._end = None if seconds is None else time.monotonic() + seconds

    def close(self) -> None:
        os.close(self._descriptor)

    def _wait(self) -> None:
        if self._end is not None and time.monotonic() >= self._end:
            self.gone = True
        else:
            select.select([], [self._descriptor], [], LOOK_SECONDS)


def _own(descriptor: int) -> int:
    """The same terminal, opened anew where that can be: not waiting is a flag of what is open.

    The operator's shell shares what this program was given, and would find it changed.
    """
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return os.dup(descriptor)
