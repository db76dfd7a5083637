"""Many values made at once, without the garbage collector looking at each of them.

Python looks for cycles among what is made, again and again while more is made. Evidence and
verdicts hold no cycles, live long, and are millions in a large cluster: looking at them takes a
third of the time that it takes to make them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 10_000
"""Of fewer partitions the collector has hardly anything to look at."""
YOUNG = 1
"""The generation up to which garbage is collected before."""


@contextmanager
def uncollected(partitions: int) -> Iterator[None]:
    """Look for no cycles while the values of so many *partitions* are made, nor among them later.

    They are freed as soon as nothing refers to them, as all values are. Garbage in cycles that
    other threads leave in the meantime is never freed, so the values of few partitions are made
    as usual. No effect where the collector is switched off already.
    """
    if partitions < MANY or not gc.isenabled():
        yield
        return
    gc.collect(YOUNG)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
