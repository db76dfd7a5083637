"""A token bucket for bytes, shared by threads: it says how long to pause, and never waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RateLimit:
    """A limit of bytes per second for all its users together.

    A burst of one second's bytes is free. More bytes are paid for by a pause afterwards, because
    the size of an answer is known only when it has arrived.
    """

    def __init__(
        self, bytes_per_second: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """None: no limit."""
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._tokens = float(bytes_per_second or 0)
        self._filled_at = clock()
        self._lock = threading.Lock()

    def spend(self, size: int) -> float:
        """Account for *size* bytes received; returns how many seconds to pause."""
        rate = self.bytes_per_second
        if rate is None:
            return 0.0
        with self._lock:
            now = self._clock()
            self._tokens = min(rate, self._tokens + (now - self._filled_at) * rate) - size
            self._filled_at = now
            return max(0.0, -self._tokens / rate)
