"""Reads are tried again while it makes sense, and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    ClusterError,
    ConnectFailed,
    DiskFull,
    NotNow,
    StorageError,
)
from breakglass.services.kafka.wire.deadline import REST_SECONDS, Deadline, persist, until
from tests.kit.waiting import within


def failing(error: BreakglassError, times: int) -> tuple[Callable[[], str], list[float]]:
    """A read that raises *error* so many times, and when it was tried."""
    tried: list[float] = []

    def read() -> str:
        tried.append(time.monotonic())
        if len(tried) <= times:
            raise error
        return "read"

    return read, tried


def test_a_read_that_succeeds_is_not_repeated() -> None:
    read, tried = failing(ConnectFailed("never"), 0)
    assert until(Deadline.after(10), read) == "read"
    assert len(tried) == 1


def test_a_broker_that_comes_back_is_read() -> None:
    read, tried = failing(ConnectFailed("b1 is restarting"), 3)
    assert until(Deadline.after(10), read) == "read"
    assert len(tried) == 4


def test_what_trying_again_cannot_help_is_raised_at_once() -> None:
    read, tried = failing(AuthenticationFailed("wrong password"), 1)
    with pytest.raises(AuthenticationFailed):
        until(Deadline.after(10), read)
    assert len(tried) == 1


def test_the_last_error_is_raised_when_the_time_is_up_and_not_later() -> None:
    read, tried = failing(ConnectFailed("b1 stays down"), 1_000)
    began = time.monotonic()
    with pytest.raises(ConnectFailed, match="b1 stays down"):
        until(Deadline.after(0.5), read)
    assert len(tried) > 1
    assert time.monotonic() - began < within(1.5)


def test_pauses_grow_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    read, _ = failing(ConnectFailed("b1 is restarting"), 6)
    until(Deadline.after(60), read)
    assert pauses == [0.1, 0.1, 0.2, 0.4, 0.8, 1.0]


def unstopped() -> bool:
    return False


@pytest.mark.parametrize("error", [ConnectFailed("b1"), DiskFull("full"), NotNow("electing")])
def test_what_passes_is_waited_for_and_each_failure_is_heard(error: BreakglassError) -> None:
    read, tried = failing(error, 2)
    heard: list[BreakglassError] = []
    assert persist(read, heard.append, unstopped) == "read"
    assert heard == [error, error]
    assert tried[1] - tried[0] >= REST_SECONDS


@pytest.mark.parametrize(
    "error", [AuthenticationFailed("no"), StorageError("read-only"), ClusterError("invalid")]
)
def test_what_does_not_pass_ends_it_at_once(error: BreakglassError) -> None:
    read, tried = failing(error, 1)
    with pytest.raises(type(error)):
        persist(read, lambda _: None, unstopped)
    assert len(tried) == 1


def test_it_is_not_begun_again_once_stopped() -> None:
    read, tried = failing(ConnectFailed("b1"), 1_000)
    assert persist(read, lambda _: None, lambda: len(tried) == 2) is None
    assert len(tried) == 2
