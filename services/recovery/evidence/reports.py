"""What the threads of brokers report, and how long their reader waits for the next report."""

from __future__ import annotations

import queue
from typing import Protocol, TypeVar

from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.wire.deadline import Deadline

T = TypeVar("T")


class Wait(Protocol):
    """Waits for the next report of a thread."""

    def __call__(self, reports: queue.SimpleQueue[T], moment: Deadline, /) -> T:
        """The next of *reports*.

        Raises:
            queue.Empty: *moment* came before it.
        """


def next_report(reports: queue.SimpleQueue[T], moment: Deadline, /) -> T:
    """`Wait` by the clock; what was reported already is taken even if *moment* has passed."""
    return reports.get(timeout=max(moment.remaining(), 0.001))


def why_silent(broker: int, error: Exception) -> str:
    """``b3 does not answer (connection refused)``; any other error keeps its text."""
    if isinstance(error, Unreachable):
        return f"b{broker} does not answer ({error.reason})"
    if isinstance(error, BreakglassError):
        return f"b{broker}: {error}"
    return f"b{broker} answers unreadably ({type(error).__name__}: {error})"
