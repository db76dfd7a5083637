"""Trying reads again: only what Breakglass marks retriable, never past a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from services.errors import BreakglassError
from services.kafka.deadline import Deadline

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0

_PAUSES = random.Random()
"""A generator of its own: threads that draw from the shared one would disturb who seeded it."""


def until(deadline: Deadline, read: Callable[[], T]) -> T:
    """The result of *read*, tried again on retriable errors until *deadline*.

    The pauses between are random, up to a limit that doubles each time, so that many readers
    of one broker do not come back all at once.

    Raises:
        BreakglassError: the last error, when the time is up or it is not retriable.
    """
    limit = FIRST_PAUSE_SECONDS
    while True:
        try:
            return read()
        except BreakglassError as error:
            if not error.retriable or deadline.remaining() < FIRST_PAUSE_SECONDS:
                raise
        time.sleep(min(_PAUSES.uniform(0, limit), deadline.remaining()))
        limit = min(2 * limit, LONGEST_PAUSE_SECONDS)
