"""The time of day as Kafka counts it: milliseconds since 1970, UTC."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Now. The clock may be set meanwhile: durations are measured by the monotonic one."""
    return time.time_ns() // 1_000_000
