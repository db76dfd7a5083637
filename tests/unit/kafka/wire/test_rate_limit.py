"""A token bucket by a clock of the test's own: nobody sleeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.kafka.wire.rate_limit import RateLimit


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_rate_nobody_ever_waits() -> None:
    limit = RateLimit(None)
    assert [limit.spend(10**12) for _ in range(3)] == [0.0, 0.0, 0.0]


def test_a_seconds_worth_may_come_at_once() -> None:
    limit = RateLimit(1_000, Clock())
    assert limit.spend(1_000) == 0.0


def test_what_comes_beyond_is_waited_for_as_long_as_it_takes_at_that_rate() -> None:
    limit = RateLimit(1_000, Clock())
    assert limit.spend(3_500) == 2.5


def test_those_who_take_together_wait_for_all_of_it() -> None:
    limit = RateLimit(1_000, Clock())
    assert [limit.spend(1_000), limit.spend(1_000), limit.spend(1_000)] == [0.0, 1.0, 2.0]


def test_silence_fills_the_bucket_again_and_never_beyond_a_seconds_worth() -> None:
    clock = Clock()
    limit = RateLimit(1_000, clock)
    limit.spend(2_000)
    clock.now += 1.5
    assert limit.spend(500) == 0.0
    clock.now += 3_600
    assert limit.spend(1_500) == 0.5


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=40), st.integers(1, 2_000))
def test_whoever_waits_as_told_keeps_to_the_rate(sizes: list[int], rate: int) -> None:
    clock = Clock()
    limit = RateLimit(rate, clock)
    for size in sizes:
        clock.now += limit.spend(size)
    elapsed = clock.now - 100.0
    assert sum(sizes) <= rate * (elapsed + 1) * 1.000001
