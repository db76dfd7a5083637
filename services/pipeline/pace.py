"""Keeps a task below a number of bytes a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LONGEST_SECONDS = 1.0
"""Of one wait: a task that is to end does not hang for longer."""


@dataclass(slots=True)
class Pace:
    """How fast one task may go; without a rate, as fast as it can."""

    bytes_per_second: float | None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    _began: float | None = field(default=None, init=False)
    _spent: int = field(default=0, init=False)

    def spend(self, size: int) -> None:
        """Return when so many bytes more may have been written since it began."""
        if self.bytes_per_second is None:
            return
        now = self.clock()
        if self._began is None:
            self._began = now
        self._spent += size
        due = self._began + self._spent / self.bytes_per_second
        while (left := due - self.clock()) > 0:
            self.wait(min(left, LONGEST_SECONDS))
