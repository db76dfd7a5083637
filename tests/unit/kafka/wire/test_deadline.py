"""Reads are tried again while it makes sense, and no longer, by a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    ClusterError,
    ConnectFailed,
    DiskFull,
    NotAuthorized,
    NotNow,
    StorageError,
    TimedOut,
)
from breakglass.services.kafka.wire.deadline import REST_SECONDS, Deadline, persist, until
from tests.kit.clock import Clock

DOWN = ConnectFailed("b1 is restarting")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def failing(
    error: BreakglassError, times: int, clock: Clock
) -> tuple[Callable[[], str], list[float]]:
    """A read that raises *error* so many times, and when it was tried."""
    tried: list[float] = []

    def read() -> str:
        tried.append(clock.now)
        if len(tried) <= times:
            raise error
        return "read"

    return read, tried


@pytest.mark.parametrize("error", [DOWN, TimedOut("b1")])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_broker_that_comes_back_is_read(clock: Clock, error: BreakglassError, times: int) -> None:
    read, tried = failing(error, times, clock)
    assert until(Deadline.after(10, clock), read, clock.sleep) == "read"
    assert len(tried) == times + 1


@pytest.mark.parametrize("error", [AuthenticationFailed("no"), NotAuthorized("no")])
def test_what_trying_again_cannot_help_is_raised_at_once(
    clock: Clock, error: BreakglassError
) -> None:
    read, tried = failing(error, 1, clock)
    with pytest.raises(type(error)):
        until(Deadline.after(10, clock), read, clock.sleep)
    assert len(tried) == 1


def test_the_last_error_is_raised_when_the_time_is_up_and_not_later(clock: Clock) -> None:
    began = clock.now
    read, tried = failing(DOWN, 1_000, clock)
    with pytest.raises(ConnectFailed):
        until(Deadline.after(0.5, clock), read, clock.sleep)
    assert len(tried) > 1
    assert clock.now - began <= 0.5


def test_pauses_grow_to_a_limit(clock: Clock) -> None:
    pauses: list[float] = []
    read, _ = failing(DOWN, 6, clock)
    until(Deadline.after(60, clock), read, pauses.append)
    assert pauses == [0.1, 0.1, 0.2, 0.4, 0.8, 1.0]


def persisted(
    read: Callable[[], str],
    clock: Clock,
    heard: Callable[[BreakglassError], object] = str,
    stopped: Callable[[], bool] = lambda: False,
) -> str | None:
    return persist(read, heard, stopped, clock, clock.sleep)


@pytest.mark.parametrize("error", [DOWN, DiskFull("full"), NotNow("electing")])
def test_what_passes_is_waited_for_and_each_failure_is_heard(
    clock: Clock, error: BreakglassError
) -> None:
    read, tried = failing(error, 2, clock)
    heard: list[BreakglassError] = []
    assert persisted(read, clock, heard.append) == "read"
    assert heard == [error, error]
    assert tried[1] - tried[0] >= REST_SECONDS


@pytest.mark.parametrize(
    "error", [AuthenticationFailed("no"), StorageError("read-only"), ClusterError("invalid")]
)
def test_what_does_not_pass_ends_it_at_once(clock: Clock, error: BreakglassError) -> None:
    read, tried = failing(error, 1, clock)
    with pytest.raises(type(error)):
        persisted(read, clock)
    assert len(tried) == 1


def test_it_is_not_begun_again_once_stopped(clock: Clock) -> None:
    read, tried = failing(DOWN, 1_000, clock)
    assert persisted(read, clock, stopped=lambda: len(tried) == 2) is None
    assert len(tried) == 2
