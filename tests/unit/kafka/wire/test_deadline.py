"""Reads are tried again while it makes sense, and no longer, by a clock that is moved by hand."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from breakglass.services import errors
from breakglass.services.clock import NOTICE_SECONDS, Waits
from breakglass.services.kafka.wire import deadline as module
from breakglass.services.kafka.wire.deadline import REST_SECONDS, Deadline, persist, until
from tests.kit.clock import Clock

DOWN = errors.ConnectFailed("b1 is restarting")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def failing(
    error: errors.BreakglassError, times: int, clock: Clock
) -> tuple[Callable[[], str], list[float]]:
    """A read that raises *error* so many times, and when it was tried."""
    tried: list[float] = []

    def read() -> str:
        tried.append(clock.now)
        if len(tried) <= times:
            raise error
        return "read"

    return read, tried


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (DOWN, True),
        (errors.TimedOut("b1"), True),
        (errors.AuthenticationFailed("no"), False),
        (errors.NotAuthorized("no"), False),
    ],
)
def test_it_is_tried_while_it_helps(
    clock: Clock, error: errors.BreakglassError, helps: bool
) -> None:
    read, tried = failing(error, 3, clock)
    with nullcontext() if helps else pytest.raises(type(error)):
        until(Deadline.after(10, clock), read, clock.sleep)
    assert len(tried) == (4 if helps else 1)


def test_s50_the_end_of_a_command_hides_no_reason_that_was_heard(clock: Clock) -> None:
    errors_of = iter([DOWN, errors.OutOfTime("b1 was not asked")])

    def read() -> None:
        raise next(errors_of)

    with pytest.raises(errors.ConnectFailed, match="restarting"):
        until(Deadline.after(10, clock), read, clock.sleep)


def test_s50_a_command_line_says_once_whom_a_retry_waits_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, said = Waits(clock), list[tuple[float, str]]()
    monkeypatch.setattr(module, "WAITS", waits)
    began = clock.now

    def read() -> None:
        said.extend((clock.now - began, whom) for whom in waits.overdue())
        raise DOWN

    for _ in range(2):
        with pytest.raises(errors.ConnectFailed):
            until(Deadline.after(60, clock), read, clock.sleep)
    assert [whom for _, whom in said] == [str(DOWN)]
    assert NOTICE_SECONDS <= said[0][0] <= NOTICE_SECONDS + 2
    clock.advance(NOTICE_SECONDS)
    assert waits.overdue() == []


def test_a_try_that_the_deadline_cuts_short_does_not_hide_what_was_answered_before(
    clock: Clock,
) -> None:
    deadline = Deadline.after(2, clock)

    def read() -> str:
        if deadline.remaining() > 1:
            raise errors.TimedOut("group billing has no coordinator")
        clock.sleep(deadline.remaining())
        raise errors.TimedOut("b1 does not answer")

    with pytest.raises(errors.TimedOut, match="no coordinator"):
        until(deadline, read, clock.sleep)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (DOWN, True),
        (errors.DiskFull("full"), True),
        (errors.NotNow("electing"), True),
        (errors.AuthenticationFailed("no"), False),
        (errors.StorageError("read-only"), False),
        (errors.ClusterError("invalid"), False),
    ],
)
def test_what_passes_is_waited_for(
    clock: Clock, error: errors.BreakglassError, passes: bool
) -> None:
    read, tried = failing(error, 2, clock)
    heard: list[errors.BreakglassError] = []
    with nullcontext() if passes else pytest.raises(type(error)):
        assert persist(read, heard.append, lambda: False, clock, clock.sleep) == "read"
        assert heard == [error, error]
        assert tried[1] - tried[0] >= REST_SECONDS
    assert len(tried) == (3 if passes else 1)
