"""A token bucket by a clock that is moved by hand."""

import pytest

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
