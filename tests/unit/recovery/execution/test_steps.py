"""In which order and in what company partitions are elected."""

import pytest

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import batches
from tests.unit.recovery.execution.targets import target


def sizes(count: int) -> list[int]:
    targets = [target(TopicPartition("events", number)) for number in range(count)]
    return [len(batch) for batch in batches(targets)]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, []),
        (1, [1]),
        (2, [1, 1]),
        (11, [1, 10]),
        (12, [1, 10, 1]),
        (1_011, [1, 10, 1_000]),
        (2_500, [1, 10, 1_000, 1_000, 489]),
    ],
)
def test_r04_one_then_ten_then_a_thousand(count: int, expected: list[int]) -> None:
    assert sizes(count) == expected


def test_r17_internal_topics_come_first_one_by_one_in_the_order_of_their_need() -> None:
    wanted = [
        TopicPartition("events", 0),
        TopicPartition("__consumer_offsets", 7),
        TopicPartition("__remote_log_metadata", 0),
        TopicPartition("events", 1),
        TopicPartition("__share_group_state", 0),
        TopicPartition("__transaction_state", 3),
        TopicPartition("__consumer_offsets", 2),
    ]
    split = [
        [str(one.partition) for one in batch]
        for batch in batches([target(partition) for partition in wanted])
    ]
    assert split == [
        ["__transaction_state-3"],
        ["__consumer_offsets-2"],
        ["__consumer_offsets-7"],
        ["__share_group_state-0"],
        ["__remote_log_metadata-0"],
        ["events-0"],
        ["events-1"],
    ]


def test_r17_internal_partitions_do_not_stand_in_for_the_canary() -> None:
    """A mistake on an ordinary topic shows on one partition all the same."""
    wanted = [
        target(TopicPartition("__consumer_offsets", 0)),
        *(target(TopicPartition("events", number)) for number in range(30)),
    ]
    assert [len(batch) for batch in batches(wanted)] == [1, 1, 10, 19]
