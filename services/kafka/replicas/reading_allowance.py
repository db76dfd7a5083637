"""How much of logs may be read to verify contents: time and bytes that many threads share."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from breakglass.services.contents_effort import Effort
from breakglass.services.kafka.wire.deadline import Deadline

SECONDS = 2.0
"""A reading may take so much longer for the sake of contents: an operator still waits for it."""
TOTAL_BYTES = 64 * 1024 * 1024
"""Over all brokers of one reading: about what two seconds bring at the rate of a rescue."""
PARTITION_BYTES = 1024 * 1024
"""Of one replica: the newest batches of thousands of records, where damage hurts most."""
LEAST_PARTITION_BYTES = 16 * 1024
"""Of one replica, however many there are: less is hardly a batch."""
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
    """What is left of the limits; its time runs from the first reading on."""

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
    def limited(self) -> bool:
        return self._limits.total_bytes < UNLIMITED

    @property
    def spent(self) -> bool:
        """Nothing more may be read."""
        return self._bytes <= 0 or self._seconds <= 0

    def begin(self) -> Deadline:
        """By when a reading that begins now has to end."""
        return Deadline.after(max(self._seconds, 0.0))

    def ended(self, seconds: float) -> None:
        """A reading took so long."""
        self._seconds -= seconds

    def share(self, logs: int) -> int:
        """Bytes for each of so many logs."""
        part = max(self._bytes // max(logs, self._logs, 1), LEAST_PARTITION_BYTES)
        return min(self._limits.partition_bytes, part)

    def spend(self, size: int) -> None:
        """Account for *size* bytes that came."""
        with self._lock:
            self._bytes -= size
