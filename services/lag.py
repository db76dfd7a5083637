"""Since when a command lags behind the cluster that it follows, and why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from breakglass.services.clock import now_ms
from breakglass.services.words.moments import time_text

REPEAT_MS = 30_000
"""The least time between two reports of one lag that name different reasons."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A follower does not have everything that it follows."""

    kind: ClassVar[str] = "behind"
    since_ms: int
    """When it was last known to have everything."""
    reason: str

    def __str__(self) -> str:
        return f"behind since {time_text(self.since_ms)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CaughtUpAgain:
    """A follower that was behind has everything again."""

    kind: ClassVar[str] = "caught up again"
    since_ms: int
    at_ms: int

    @property
    def seconds(self) -> float:
        """How long it was behind."""
        return (self.at_ms - self.since_ms) / 1000

    def __str__(self) -> str:
        at, since = time_text(self.at_ms), time_text(self.since_ms)
        return f"caught up again at {at}: it was behind since {since}, for {self.seconds:,.1f} s"


class LagAlarm:
    """Reports each change from up to date to behind and back; for several threads."""

    def __init__(
        self, report: Callable[[Behind | CaughtUpAgain], object], clock: Callable[[], int] = now_ms
    ) -> None:
        """Begin as up to date."""
        self._report, self._clock = report, clock
        self._lock = threading.Lock()
        self._good_ms = clock()
        self._reported_ms = 0
        self.now: Behind | None = None
        """None: up to date."""

    def behind(self, reason: object) -> None:
        """Report that the command cannot follow, for *reason*; repeat another reason only later."""
        with self._lock:
            at, before = self._clock(), self.now
            if before is not None and before.reason == str(reason):
                return
            self.now = Behind(self._good_ms if before is None else before.since_ms, str(reason))
            if before is None or at - self._reported_ms >= REPEAT_MS:
                self._reported_ms = at
                self._report(self.now)

    def up_to_date(self) -> None:
        """Report that the command has everything that there is now."""
        with self._lock:
            self._good_ms, before = self._clock(), self.now
            if before is not None:
                self.now = None
                self._report(CaughtUpAgain(before.since_ms, self._good_ms))
