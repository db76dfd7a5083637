"""Trying reads again: only what Breakglass marks retriable, never past a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from services.errors import BreakglassError
from services.kafka.wire.deadline import Deadline

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0


def until(deadline: Deadline, read: Callable[[], T]) -> T:
    """The result of *read*, tried again on retriable errors until *deadline*.

    Raises:
        BreakglassError: the last error, when the time is up or it is not retriable.
    """
    try:
        return read()
    except BreakglassError as error:
        if not _again(error) or deadline.remaining() < FIRST_PAUSE_SECONDS:
            raise
    return _retry(deadline, read)


def _retry(deadline: Deadline, read: Callable[[], T]) -> T:
    """Go on after a first failure; tenacity is imported only now, for it is rarely needed."""
    from tenacity import Retrying, retry_if_exception, wait_exponential

    pauses = wait_exponential(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    attempts = Retrying(
        retry=retry_if_exception(_again),
        wait=lambda state: min(pauses(state), deadline.remaining()),
        stop=lambda _: deadline.remaining() < FIRST_PAUSE_SECONDS,
        reraise=True,
    )
    attempts.sleep(FIRST_PAUSE_SECONDS)
    return attempts(read)


def _again(error: BaseException) -> bool:
    return isinstance(error, BreakglassError) and error.retriable
