"""Limits how much of logs is read: bytes per second of a rescue, time and bytes of a verification.

Threads share both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.session import Effort


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


SECONDS = 2.0
"""Seconds that verifying contents may add to a reading, for which an operator waits."""
TOTAL_BYTES = 64 * 1024 * 1024
"""Bytes over all brokers of one reading: about two seconds at the rate of a rescue."""
PARTITION_BYTES = 1024 * 1024
"""Bytes of one replica: the newest thousands of records, where damage costs most."""
LEAST_PARTITION_BYTES = 16 * 1024
"""Bytes of one replica at least, however many replicas there are: about one batch."""
UNLIMITED = 2**62
FOREVER = 10 * 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """What one reading may use."""

    seconds: float = SECONDS
    total_bytes: int = TOTAL_BYTES
    partition_bytes: int = PARTITION_BYTES


BUDGET = ReadingLimits()
NO_LIMITS = ReadingLimits(FOREVER, UNLIMITED, UNLIMITED)


class Allowance:
    """The unused part of the limits; the time starts with the first reading."""

    def __init__(self, limits: ReadingLimits = BUDGET, logs: int = 0) -> None:
        self._limits, self._logs = limits, logs
        self._bytes = limits.total_bytes
        self._seconds = limits.seconds
        self._lock = threading.Lock()

    @classmethod
    def of(cls, effort: Effort, logs: int = 0) -> Allowance:
        """What a reading with *effort* may use, of *logs* or more of them."""
        return cls(NO_LIMITS if effort is Effort.FULL else BUDGET, logs)

    @property
    def spent(self) -> bool:
        """Nothing more may be read."""
        return self._bytes <= 0 or self._seconds <= 0

    def begin(self) -> Deadline:
        """The deadline of a reading that begins now."""
        return Deadline.after(max(self._seconds, 0.0))

    def ended(self, seconds: float) -> None:
        self._seconds -= seconds

    def share(self, logs: int) -> int:
        part = max(self._bytes // max(logs, self._logs, 1), LEAST_PARTITION_BYTES)
        return min(self._limits.partition_bytes, part)

    def spend(self, size: int) -> None:
        with self._lock:
            self._bytes -= size
