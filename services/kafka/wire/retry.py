"""Trying again: reads until a deadline, and what follows a cluster for as long as it is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.deadline import Deadline

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
REST_SECONDS = 0.5
LONGEST_REST_SECONDS = 5.0
LOOK_SECONDS = 0.05
"""How often a pause looks whether anything is still wanted."""


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


def persist(
    attempt: Callable[[], T],
    failed: Callable[[BreakglassError], object],
    stopped: Callable[[], bool],
) -> T | None:
    """The result of *attempt*, begun again after every error that passes; None once *stopped*.

    *failed* hears of each of them before the pause, which is as long as the attempt was, within
    bounds: a short attempt costs a cluster or a disk that is in trouble little.

    Raises:
        BreakglassError: an error that does not pass.
    """
    from tenacity import RetryCallState, Retrying, retry_if_exception

    began = 0.0

    def timed() -> T:
        nonlocal began
        began = time.monotonic()
        return attempt()

    def pause(_: RetryCallState) -> float:
        took = time.monotonic() - began
        return max(REST_SECONDS, took) if took < LONGEST_REST_SECONDS else REST_SECONDS

    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, BreakglassError):
            failed(error)

    attempts = Retrying(
        retry=retry_if_exception(_passes),
        wait=pause,
        stop=lambda _: stopped(),
        before_sleep=tell,
        sleep=lambda seconds: _rest(seconds, stopped),
        retry_error_callback=lambda _: None,
    )
    return attempts(timed)


def _rest(seconds: float, stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not stopped() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, LOOK_SECONDS))


def _passes(error: BaseException) -> bool:
    return isinstance(error, BreakglassError) and error.passes


def _again(error: BaseException) -> bool:
    return isinstance(error, BreakglassError) and error.retriable
