"""A token bucket by a clock that is moved by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.kafka.replicas.limits import RateLimit
from tests.kit.clock import Clock


@pytest.mark.parametrize(
    ("rate", "sizes", "pauses"),
    [
        (None, (10**12, 10**12), [0.0, 0.0]),
        (1_000, (1_000,), [0.0]),
        (1_000, (3_500,), [2.5]),
        (1_000, (1_000, 1_000, 1_000), [0.0, 1.0, 2.0]),
    ],
    ids=["no rate", "a second's worth at once", "what comes beyond", "all who take together"],
)
def test_what_is_beyond_a_seconds_worth_is_paused_for(
    rate: int | None, sizes: tuple[int, ...], pauses: list[float]
) -> None:
    limit = RateLimit(rate, Clock())
    assert [limit.spend(size) for size in sizes] == pauses


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=40), st.integers(1, 2_000))
def test_whoever_waits_as_told_keeps_to_the_rate(sizes: list[int], rate: int) -> None:
    clock = Clock()
    began, limit = clock.now, RateLimit(rate, clock)
    for size in sizes:
        clock.advance(limit.spend(size))
    elapsed = clock.now - began
    assert sum(sizes) <= rate * (elapsed + 1) * 1.000001
