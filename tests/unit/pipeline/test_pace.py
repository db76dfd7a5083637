"""A task that is kept below a number of bytes a second."""

from __future__ import annotations

from services.pipeline.pace import Pace


class Time:
    """Goes on while somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        assert seconds <= 1.0
        self.now += seconds


def test_it_takes_as_long_as_the_rate_says() -> None:
    time = Time()
    pace = Pace(1000.0, time.clock, time.wait)
    for _ in range(10):
        pace.spend(500)
    assert time.now == 105.0


def test_time_that_was_spent_elsewhere_counts() -> None:
    time = Time()
    pace = Pace(1000.0, time.clock, time.wait)
    pace.spend(1000)
    time.now += 10
    before = time.now
    pace.spend(1000)
    assert time.now == before


def test_without_a_rate_it_never_waits() -> None:
    time = Time()
    Pace(None, time.clock, time.wait).spend(10**12)
    assert time.now == 100.0
