"""Waiting for what another thread or process does: a condition, what it is, and a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

DEADLINE_SECONDS = 300.0
"""It only ends a hang, with a sentence, before the test's own limit does."""
LOOK_SECONDS = 0.01


LOWER_PRIORITY = 3.0
"""How much longer a process takes whose priority is lower, as that of a spare worker is."""


def within(seconds: float) -> float:
    """*seconds* on a machine with nothing else to do: longer while processes share its cores."""
    shared = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    return seconds * shared * (LOWER_PRIORITY if os.nice(0) > 0 else 1.0)


def wait_until(
    so: Callable[[], object],
    what: str,
    seconds: float = DEADLINE_SECONDS,
    *,
    every: float = LOOK_SECONDS,
    instead: Callable[[], object] = str,
) -> float:
    """Return once *so*, with the seconds that it took; it is looked at again *every* so many.

    Raises:
        AssertionError: it was not so within *seconds*; *what* was waited for and what *instead*
            there is are named.
    """
    began = time.monotonic()
    while not so():
        waited = time.monotonic() - began
        assert waited < seconds, f"waited {seconds:g} s in vain for {what} {instead()}".rstrip()
        time.sleep(every)
    return time.monotonic() - began
