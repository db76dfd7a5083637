"""A moment by which something has to be done; every wait on the cluster carries one."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on the monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The moment *seconds* from now."""
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds left, 0.0 when it has passed."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        return self.remaining() == 0.0

    def sooner(self, seconds: float) -> Deadline:
        """The earlier of this deadline and *seconds* from now."""
        return Deadline(min(self.at, time.monotonic() + seconds))
