"""When a transactional checkpoint lets transactions end once more, to have less to read."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.kafka.transaction_floors import (
    FEW,
    WORTHWHILE,
    TransactionWindow,
    worth_another,
)
from breakglass.services.checkpoint.store.documents import TransactionFloors
from breakglass.services.model import TopicPartition

MANY = 100 * FEW


def test_a_window_has_the_offsets_from_the_floors_to_the_ends_of_the_checkpoint() -> None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    floors = TransactionFloors({"__consumer_offsets": {7: 1}}, {}, {1: 10, 2: 5})
    window = TransactionWindow(floors, {first: 30, second: 5})
    assert window.offsets({first: 1, second: 2}) == 20


@pytest.mark.parametrize(
    ("offsets", "before", "again"),
    [
        (FEW, None, False),
        (FEW + 1, None, True),
        (int(WORTHWHILE * MANY), MANY, True),
        (int(WORTHWHILE * MANY) + 1, MANY, False),
        (FEW, MANY, False),
    ],
)
def test_another_window_is_sought_while_that_makes_it_much_shorter(
    offsets: int, before: int | None, again: bool
) -> None:
    assert worth_another(offsets, before) is again
