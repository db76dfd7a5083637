"""Keeps a session small and its start quick: what glibc keeps, and when garbage is looked for.

While the console starts, what is made stays as long as the session: Python would look through all
that is imported, again and again, before the first frame.
"""

from __future__ import annotations

import ctypes
import gc

M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -8, -3, -1
"""glibc's names for what is set here (malloc.h)."""
LARGE_BYTES = 256 * 1024
"""What is larger is given back to the system as soon as it is free."""
TRIM_BYTES = 1024 * 1024
OBJECTS_BETWEEN_COLLECTIONS = 5_000
"""Of a program that runs for days: screens, tasks and errors are cycles, of some 100 bytes each."""


def give_memory_back() -> bool:
    """Keep what is free from being held, before there are threads; whether that was done.

    Left alone, glibc gives threads heaps of their own, which keep what brokers' answers once
    took, and puts lists of 100,000 rows between what stays, where they leave gaps: that is half
    of what such a session would hold. Other C libraries have no such settings.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, LARGE_BYTES), (M_TRIM_THRESHOLD, TRIM_BYTES))
    return 0 not in [mallopt(name, value) for name, value in settings]


def put_off_collecting() -> None:
    """Collect no garbage until `resume_collecting`."""
    gc.disable()


def resume_collecting() -> None:
    """Collect garbage from now on, except what is there by now; no effect a second time."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
        collect_often()


def collect_often() -> None:
    """Collect garbage before it takes megabytes; commands, which end soon, collect seldom.

    `services/quick_values.py` keeps the collector away from the evidence of a large cluster.
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
