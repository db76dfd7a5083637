"""Tasks, and jobs one after the other, that are kept below a number of bytes a second."""

from __future__ import annotations

from breakglass.services.pipeline.pace import CATCH_UP, CREDIT_SECONDS, Budget, Pace


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
    pace = Pace(1000.0, clock=time.clock, wait=time.wait)
    for _ in range(10):
        pace.spend(500)
    assert time.now == 105.0


def test_time_that_was_spent_elsewhere_counts() -> None:
    time = Time()
    pace = Pace(1000.0, clock=time.clock, wait=time.wait)
    pace.spend(1000)
    time.now += 10
    before = time.now
    pace.spend(1000)
    assert time.now == before
    pace.spend(1000)
    assert time.now == before + 1 / CATCH_UP


def test_what_is_made_up_for_does_not_come_as_a_flood() -> None:
    time = Time()
    pace = Pace(1000.0, 5000.0, time.clock, time.wait)
    for _ in range(4):
        pace.spend(500)
    assert time.now == 100.0 + 2000 / (CATCH_UP * 1000)


def test_without_a_rate_it_never_waits() -> None:
    time = Time()
    Pace(None, clock=time.clock, wait=time.wait).spend(10**12)
    assert time.now == 100.0


def test_a_credit_is_made_up_for_and_the_rest_comes_at_the_rate() -> None:
    time = Time()
    pace = Pace(1000.0, 2000.0, time.clock, time.wait)
    pace.spend(4000)
    assert time.now == 102.0
    pace.spend(500)
    assert time.now == 102.5


def test_jobs_make_up_for_the_time_between_them_and_never_pass_their_rate_together() -> None:
    time = Time()
    budget = Budget(1000.0, time.clock)
    written = 0
    for idle in (0.0, 0.5, 1.0):
        time.now += idle
        pace = Pace(1000.0, budget.credit(), time.clock, time.wait)
        for _ in range(6):
            pace.spend(500)
        budget.spend(3000)
        written += 3000
        assert written <= 1000.0 * (time.now - 100.0)
    assert time.now == 109.0


def test_a_long_pause_is_not_made_up_for() -> None:
    time = Time()
    budget = Budget(1000.0, time.clock)
    assert budget.credit() == 0
    time.now += 3600
    assert budget.credit() == CREDIT_SECONDS * 1000
    budget.spend(int(CREDIT_SECONDS * 1000))
    assert budget.credit() == 0
