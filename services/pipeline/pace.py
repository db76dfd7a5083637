"""Limits tasks, and successive jobs, to a number of bytes per second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

CATCH_UP = 2.0
"""The maximum speed of catching up, as a multiple of the rate."""
LONGEST_SECONDS = 1.0
"""The longest single wait, so that a cancelled task ends soon."""
CREDIT_SECONDS = 5.0
"""Credit for idle time is limited to this: more would arrive as a burst."""


@dataclass(slots=True)
class Pace:
    """Limits one task to a rate; None is unlimited."""

    bytes_per_second: float | None
    credit: float = 0.0
    """Bytes that may be written in addition to the rate."""
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    _began: float | None = field(default=None, init=False)
    _spent: int = field(default=0, init=False)
    _before: float = field(default=0.0, init=False)
    """The time of the last write."""

    def spend(self, size: int) -> None:
        """Wait until the rate allows *size* more bytes."""
        if self.bytes_per_second is None:
            return
        if self._began is None:
            self._began = self._before = self.clock()
        self._spent += size
        by_rate = self._began + (self._spent - self.credit) / self.bytes_per_second
        soonest = self._before + size / (CATCH_UP * self.bytes_per_second)
        due = max(by_rate, soonest)
        while (left := due - self.clock()) > 0:
            self.wait(min(left, LONGEST_SECONDS))
        self._before = self.clock()


@dataclass(slots=True)
class Budget:
    """The bytes that successive jobs may write at their common rate.

    Between jobs, queries, plans and commits take time without a write. The next job catches up, so
    that all jobs together reach the rate, and never exceed it.
    """

    bytes_per_second: float
    clock: Callable[[], float] = time.monotonic
    _began: float | None = field(default=None, init=False)
    _spent: float = field(default=0.0, init=False)

    def credit(self) -> float:
        """Bytes that a job starting now may write in addition to its rate."""
        now = self.clock()
        if self._began is None:
            self._began = now
        due = (now - self._began) * self.bytes_per_second
        most = CREDIT_SECONDS * self.bytes_per_second
        self._spent = max(self._spent, due - most)
        return max(0.0, due - self._spent)

    def spend(self, size: int) -> None:
        """Count bytes that a job has written."""
        self._spent += size
