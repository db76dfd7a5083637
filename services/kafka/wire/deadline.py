"""Deadlines, which bound every wait on the cluster, and retries until a deadline or a stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from breakglass.services.clock import WAITS
from breakglass.services.errors import BreakglassError, OutOfTime


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on the monotonic clock."""

    at: float
    clock: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        return cls(clock() + seconds, clock)

    def remaining(self) -> float:
        """Seconds left; 0.0 after the deadline."""
        return max(0.0, self.at - self.clock())

    @property
    def passed(self) -> bool:
        return self.remaining() == 0.0

    def sooner(self, seconds: float) -> Deadline:
        """The earlier of this deadline and *seconds* from now."""
        return Deadline(min(self.at, self.clock() + seconds), self.clock)

    def later(self, seconds: float) -> Deadline:
        """*seconds* after this deadline."""
        return Deadline(self.at + seconds, self.clock)

    def at_least(self, seconds: float) -> Deadline:
        """The later of this deadline and *seconds* from now."""
        return Deadline(max(self.at, self.clock() + seconds), self.clock)

    def half(self) -> Deadline:
        """After half of what is left, so that no answer takes the time of all others."""
        return self.sooner(self.remaining() / 2)


NEVER = Deadline(math.inf)
T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
REST_SECONDS = 0.5
LONGEST_REST_SECONDS = 5.0
LOOK_SECONDS = 0.05
"""How often a pause checks whether it should stop."""


def until(
    deadline: Deadline, read: Callable[[], T], sleep: Callable[[float], None] = time.sleep
) -> T:
    """The result of *read*, tried again on retriable errors until *deadline*.

    Raises:
        BreakglassError: the last error, when the time is up or it is not retriable. Of a try that
            a deadline cut short, this one or the sender's, the error of the try before: a broker
            that answered until then, such as that a group has no coordinator, is not one that
            does not answer.
    """
    try:
        return read()
    except BreakglassError as error:
        if not _again(error) or deadline.remaining() < FIRST_PAUSE_SECONDS:
            raise
        heard, over = error, False

    def attempt() -> T:
        nonlocal heard, over
        try:
            return read()
        except BreakglassError as error:
            over = isinstance(error, OutOfTime)
            if over or (_again(error) and deadline.remaining() < FIRST_PAUSE_SECONDS):
                raise heard from error
            heard = error
            raise

    # Imported only after a first failure, because it is rarely needed.
    from tenacity import Retrying, retry_if_exception, wait_exponential

    pauses = wait_exponential(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    attempts = Retrying(
        sleep=sleep,
        retry=retry_if_exception(_again),
        wait=lambda state: min(pauses(state), deadline.remaining()),
        stop=lambda _: over or deadline.remaining() < FIRST_PAUSE_SECONDS,
        reraise=True,
    )
    WAITS.begin(attempts, lambda: str(heard))
    try:
        attempts.sleep(FIRST_PAUSE_SECONDS)
        return attempts(attempt)
    finally:
        WAITS.end(attempts)


def persist(
    attempt: Callable[[], T],
    failed: Callable[[BreakglassError], object],
    stopped: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T | None:
    """The result of *attempt*, retried after every transient error; None once *stopped*.

    *failed* is called with each error before the pause. The pause is as long as the attempt was,
    within bounds, so that retries load a failing cluster or disk little.

    Raises BreakglassError: an error that is not transient.
    """
    from tenacity import RetryCallState, Retrying, retry_if_exception

    began = 0.0

    def timed() -> T:
        nonlocal began
        began = clock()
        return attempt()

    def pause(_: RetryCallState) -> float:
        took = clock() - began
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
        sleep=lambda seconds: _rest(seconds, stopped, clock, sleep),
        retry_error_callback=lambda _: None,
    )
    return attempts(timed)


def _rest(
    seconds: float,
    stopped: Callable[[], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    until = clock() + seconds
    while not stopped() and (left := until - clock()) > 0:
        sleep(min(left, LOOK_SECONDS))


def _passes(error: BaseException) -> bool:
    return isinstance(error, BreakglassError) and error.passes


def _again(error: BaseException) -> bool:
    return isinstance(error, BreakglassError) and error.retriable
