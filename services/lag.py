"""Since when a command that follows a cluster is behind it, and why; one account for all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from breakglass.services.clock import now_ms
from breakglass.services.words.moments import time_text

REPEAT_MS = 30_000
"""Another reason of the same lag is told after so long."""


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
    """Tells each change from up to date to behind and back; for several threads."""

    def __init__(
        self, tell: Callable[[Behind | CaughtUpAgain], object], clock: Callable[[], int] = now_ms
    ) -> None:
        """Whatever follows is up to date now, as far as anybody knows."""
        self._tell, self._clock = tell, clock
        self._lock = threading.Lock()
        self._good_ms = clock()
        self._told_ms = 0
        self.now: Behind | None = None
        """None: up to date."""

    def behind(self, reason: object) -> None:
        """It cannot follow, for *reason*; told at once, and another reason after a while."""
        with self._lock:
            at, before = self._clock(), self.now
            if before is not None and before.reason == str(reason):
                return
            self.now = Behind(self._good_ms if before is None else before.since_ms, str(reason))
            if before is None or at - self._told_ms >= REPEAT_MS:
                self._told_ms = at
                self._tell(self.now)

    def up_to_date(self) -> None:
        """It has everything that there is now."""
        with self._lock:
            self._good_ms, before = self._clock(), self.now
            if before is not None:
                self.now = None
                self._tell(CaughtUpAgain(before.since_ms, self._good_ms))
