"""Waiting for what another thread or process does: a condition, what it is, and a deadline."""

import time
from collections.abc import Callable

DEADLINE_SECONDS = 300.0
"""It only ends a hang, with a sentence, before the test's own limit does."""
LOOK_SECONDS = 0.01


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
