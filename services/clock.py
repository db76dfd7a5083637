"""The time of day as Kafka counts it, in ms since 1970, UTC; and whom a process waits for."""

from __future__ import annotations

import time
from collections.abc import Callable


def now_ms() -> int:
    """The time now. The clock may be set: measure durations with the monotonic clock."""
    return time.time_ns() // 1_000_000


NOTICE_SECONDS = 5.0
"""After which a command line says whom it waits for."""


class Waits:
    """Whom this process waits for, in all of its threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[object, tuple[float, Callable[[], str]]] = {}
        self._said: set[str] = set()

    def begin(self, key: object, whom: Callable[[], str]) -> None:
        self._open[key] = self._clock(), whom

    def end(self, key: object) -> None:
        del self._open[key]

    def overdue(self) -> list[str]:
        """Whom it waits for by now for `NOTICE_SECONDS`, each once."""
        late = self._clock() - NOTICE_SECONDS
        found = [whom() for began, whom in self._open.copy().values() if began <= late]
        fresh = [whom for whom in dict.fromkeys(found) if whom not in self._said]
        self._said.update(fresh)
        return fresh


WAITS = Waits()
