"""How far a partition has come, from what metadata and leader say (R7)."""

import pytest

from breakglass.services.recovery.execution.confirm import rung
from breakglass.services.recovery.execution.target import Rung
from tests.unit.recovery.execution.targets import state, target


@pytest.mark.parametrize(
    ("isr", "minimum", "mark", "expected"),
    [
        ((1,), 1, None, Rung.SERVING),
        ((1,), 1, 99, Rung.SERVING),
        ((1,), 1, 100, Rung.WRITABLE),
        ((1,), 1, 130, Rung.WRITABLE),
        ((1, 2), 1, 100, Rung.REDUNDANT),
        ((1,), 2, None, Rung.SERVING),
        ((1,), 2, 0, Rung.SERVING),
        ((1,), 2, 100, Rung.READABLE),
        ((1, 2), 2, 100, Rung.REDUNDANT),
        ((1, 2), 3, 100, Rung.READABLE),
        ((1, 2, 3), 2, 100, Rung.REDUNDANT),
        ((1, 2, 3), 2, 99, Rung.SERVING),
        ((1, 2), None, 100, Rung.READABLE),
    ],
)
def test_r07_the_highest_rung_that_is_proved(
    isr: tuple[int, ...], minimum: int | None, mark: int | None, expected: Rung
) -> None:
    """Elected is not recovered: with min.insync.replicas above the ISR nobody can read."""
    led = state(leader=1, isr=isr)
    assert rung(target(log_end=100, minimum=minimum), led, mark) is expected


def test_r16_what_was_unread_when_it_was_chosen_is_not_called_readable() -> None:
    """Its end is unknown, and unknown is not 0."""
    assert rung(target(log_end=None), state(leader=1, isr=(1,)), 40) is Rung.SERVING
