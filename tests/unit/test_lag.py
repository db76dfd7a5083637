"""A lag is reported once when it begins and once when it ends, with the moments of both."""

from breakglass.services.lag import REPEAT_MS, Behind, CaughtUpAgain, LagAlarm


class Clock:
    now = 1_000

    def __call__(self) -> int:
        return self.now


def alarm() -> tuple[LagAlarm, Clock, list[Behind | CaughtUpAgain]]:
    heard: list[Behind | CaughtUpAgain] = []
    clock = Clock()
    return LagAlarm(heard.append, clock), clock, heard


def test_a_lag_begins_when_everything_was_last_there_and_is_reported_once_with_its_end() -> None:
    lag, clock, heard = alarm()
    clock.now = 2_000
    lag.up_to_date()
    clock.now = 5_000
    for _ in range(3):
        lag.behind("b1 is down")
    assert heard == [Behind(2_000, "b1 is down")]
    assert lag.now == heard[0]
    clock.now = 5_500
    for _ in range(3):
        lag.up_to_date()
    assert heard[1:] == [CaughtUpAgain(2_000, 5_500)]
    assert lag.now is None


def test_another_reason_is_reported_after_a_while_and_the_moment_stays() -> None:
    lag, clock, heard = alarm()
    lag.behind("no network")
    clock.now += REPEAT_MS - 1
    lag.behind("the disk is full")
    assert (len(heard), lag.now) == (1, Behind(1_000, "the disk is full"))
    clock.now += 1
    lag.behind("no leader")
    assert heard[1:] == [Behind(1_000, "no leader")]
