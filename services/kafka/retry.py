"""Trying reads again: only what Breakglass marks retriable, never past a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from services.errors import BreakglassError
from services.kafka.deadline import Deadline

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0


def until(deadline: Deadline, read: Callable[[], T]) -> T:
    """The result of *read*, tried again on retriable errors until *deadline*.

    Raises:
        BreakglassError: the last error, when the time is up or it is not retriable.
    """
    from tenacity import Retrying, retry_if_exception, wait_random_exponential

    pause = wait_random_exponential(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    attempts = Retrying(
        retry=retry_if_exception(lambda e: isinstance(e, BreakglassError) and e.retriable),
        wait=lambda state: min(pause(state), deadline.remaining()),
        stop=lambda _: deadline.remaining() < FIRST_PAUSE_SECONDS,
        reraise=True,
    )
    return attempts(read)
