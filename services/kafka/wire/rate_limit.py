"""A token bucket for bytes, shared by threads: it says how long to be silent, and never waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RateLimit:
    """At most so many bytes a second, everybody who takes from it together.

    A second's worth may come at once. What comes beyond is paid for afterwards, because the size
    of an answer is known only when it is there.
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
        """Account for *size* bytes that came; returns how many seconds to ask for nothing."""
        rate = self.bytes_per_second
        if rate is None:
            return 0.0
        with self._lock:
            now = self._clock()
            self._tokens = min(rate, self._tokens + (now - self._filled_at) * rate) - size
            self._filled_at = now
            return max(0.0, -self._tokens / rate)
