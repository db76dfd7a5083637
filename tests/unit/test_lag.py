"""A lag is told once when it begins and once when it ends, with the moments of both."""

from __future__ import annotations

from breakglass.services.lag import REPEAT_MS, Behind, CaughtUpAgain, LagAlarm


class Clock:
    now = 1_000

    def __call__(self) -> int:
        return self.now


def told() -> tuple[LagAlarm, Clock, list[Behind | CaughtUpAgain]]:
    heard: list[Behind | CaughtUpAgain] = []
    clock = Clock()
    return LagAlarm(heard.append, clock), clock, heard


def test_a_lag_begins_when_everything_was_last_there() -> None:
    lag, clock, heard = told()
    clock.now = 2_000
    lag.up_to_date()
    clock.now = 5_000
    lag.behind("b1 is down")
    assert heard == [Behind(2_000, "b1 is down")]
    assert lag.now == heard[0]


def test_it_is_told_once_and_its_end_as_well() -> None:
    lag, clock, heard = told()
    for _ in range(3):
        lag.behind("b1 is down")
    clock.now = 3_500
    for _ in range(3):
        lag.up_to_date()
    assert heard == [Behind(1_000, "b1 is down"), CaughtUpAgain(1_000, 3_500)]
    assert lag.now is None


def test_another_reason_is_told_after_a_while_and_the_moment_stays() -> None:
    lag, clock, heard = told()
    lag.behind("no network")
    clock.now += REPEAT_MS - 1
    lag.behind("the disk is full")
    assert len(heard) == 1
    assert lag.now == Behind(1_000, "the disk is full")
    clock.now += 1
    lag.behind("no leader")
    assert heard[1:] == [Behind(1_000, "no leader")]
