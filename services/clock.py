"""The time of day as Kafka counts it: milliseconds since 1970, UTC."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The time now. The clock may be set: measure durations with the monotonic clock."""
    return time.time_ns() // 1_000_000
