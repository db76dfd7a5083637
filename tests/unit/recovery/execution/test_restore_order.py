"""Whose order it is: the guard before a blind write (R13)."""

import pytest

from breakglass.services.model import PartitionState, Reassignment, Unknown
from breakglass.services.recovery.execution.restore_order import still_ours
from tests.unit.recovery.execution.targets import state, target

WRITTEN = (1, 2, 3)


@pytest.mark.parametrize(
    ("now", "ours"),
    [
        (state(assignment=WRITTEN, leader=1), True),
        (state(assignment=WRITTEN, leader=1, leader_epoch=9, isr=(1, 2)), True),
        (state(assignment=(3, 1, 2), leader=1), False),
        (state(assignment=(1, 3, 2), leader=1), False),
        (state(assignment=(1, 2), leader=1), False),
        (state(assignment=(1, 2, 3, 4), leader=1), False),
        (state(assignment=WRITTEN, leader=2), False),
        (state(assignment=WRITTEN, leader=None), False),
        (state(assignment=WRITTEN, leader=1, reassignment=Reassignment((4,), ())), False),
        (state(assignment=WRITTEN, leader=1, reassignment=Unknown("not allowed")), False),
        (None, False),
    ],
    ids=[
        "as it was written",
        "epoch and ISR may move",
        "restored already",
        "another order",
        "a replica fewer",
        "a replica more",
        "another leads",
        "nobody leads",
        "being moved",
        "nobody says whether it is being moved",
        "gone",
    ],
)
def test_r13_only_exactly_what_was_written_under_the_designee_is_ours(
    now: PartitionState | None, ours: bool
) -> None:
    assert still_ours(target(order=WRITTEN), now) is ours
