"""Keeps tasks, and jobs one after the other, below a number of bytes a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

CATCH_UP = 2.0
"""Times the rate, at most, where something is made up for."""
LONGEST_SECONDS = 1.0
"""Of one wait: a task that is to end does not hang for longer."""
CREDIT_SECONDS = 5.0
"""What was not written for longer than that is not made up for: it would come as a flood."""


@dataclass(slots=True)
class Pace:
    """How fast one task may go; without a rate, as fast as it can."""

    bytes_per_second: float | None
    credit: float = 0.0
    """Bytes that are made up for, before the rate counts."""
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    _began: float | None = field(default=None, init=False)
    _spent: int = field(default=0, init=False)
    _before: float = field(default=0.0, init=False)
    """When the last bytes were written."""

    def spend(self, size: int) -> None:
        """Return when so many bytes more may have been written since it began."""
        if self.bytes_per_second is None:
            return
        if self._began is None:
            self._began = self._before = self.clock()
        self._spent += size
        by_rate = self._began + (self._spent - self.credit) / self.bytes_per_second
        soonest = self._before + size / (CATCH_UP * self.bytes_per_second)
        self._wait_until(max(by_rate, soonest))
        self._before = self.clock()

    def _wait_until(self, due: float) -> None:
        while (left := due - self.clock()) > 0:
            self.wait(min(left, LONGEST_SECONDS))


@dataclass(slots=True)
class Budget:
    """What jobs, one after the other, may write at their rate.

    Between them nothing is written: looks at the cluster, plans, commits. The next one makes up
    for that, so that all of them together reach the rate, and never pass it.
    """

    bytes_per_second: float
    clock: Callable[[], float] = time.monotonic
    _began: float | None = field(default=None, init=False)
    _spent: float = field(default=0.0, init=False)

    def credit(self) -> float:
        """Bytes that a job which begins now may write beside its rate."""
        now = self.clock()
        if self._began is None:
            self._began = now
        due = (now - self._began) * self.bytes_per_second
        most = CREDIT_SECONDS * self.bytes_per_second
        self._spent = max(self._spent, due - most)
        return max(0.0, due - self._spent)

    def spend(self, size: int) -> None:
        """Note what a job has written."""
        self._spent += size
