"""How a demo was left is judged by what the lab knows: a broker that was to be started included."""

from collections.abc import Collection

import pytest

from breakglass.console.demo import how_it_was_left
from breakglass.services.lab.truth import (
    Condition,
    Expectation,
    PartitionTruth,
    ReplicaTruth,
    TrueVerdict,
    Truth,
    Written,
)
from breakglass.services.model import EpochRange, PartitionState, TopicPartition
from tests.unit.recovery.replicas import TOPIC_ID

ORDERS = TopicPartition("orders", 0)
KEYS = tuple(f"key-{number}" for number in range(30))
HELD = {1: 20, 2: 10, 3: 30}
"""How many of the records each broker had after the damage; b3 is dead."""
WAIT = Expectation(ORDERS, TrueVerdict.WAIT, 3, 1, "", TrueVerdict.SAFE)
SAFE = Expectation(ORDERS, TrueVerdict.SAFE, 1, 1, "")
BOMB = Expectation(ORDERS, TrueVerdict.BOMB, 4, 1, "", TrueVerdict.SAFE)


def left(expected: Expectation, leader: int | None, now: Collection[str]) -> str:
    """What is said where *leader* holds the records of those keys by now."""
    replicas = [
        ReplicaTruth(broker, broker != 3, 0, end, (EpochRange(0, 0, end),), end)
        for broker, end in HELD.items()
    ]
    written = (Written(0, 0, KEYS, "all", True, 3),)
    partition = PartitionTruth("", expected, (3, 1, 2), written, tuple(replicas), ())
    truth = Truth("lab", "4.3.1", (), {1: Condition.RUNNING}, (partition,))
    state = PartitionState(ORDERS, TOPIC_ID, leader, 5, (3, 1, 2), (), (), ())
    (told,) = how_it_was_left([state], truth, lambda *_: now)
    return told


@pytest.mark.parametrize(
    ("expected", "leader", "now", "words"),
    [
        (WAIT, 3, 30, "led by b3, with all 30 records that b3 had"),
        (WAIT, 1, 30, "led by b1, with all 30 records that b3 had"),
        (WAIT, 1, 20, "led by b1, without 10 of the 30 records that b3 had; it was best to start"),
        (SAFE, 1, 20, "led by b1, with all 20 records that b1 had"),
        (SAFE, 2, 10, "led by b2, without 10 of the 20 records that b1 had; it was best to elect"),
        (BOMB, 4, 0, "led by b4, without 20 of the 20 records that b1 had; it was best to stop b4"),
        (WAIT, None, 0, "still offline; it is best to start b3"),
        (BOMB, None, 0, "still offline; it is best to stop b4, then to elect b1"),
    ],
)
def test_a_partition_is_judged_by_what_its_leader_holds_of_the_log_that_was_to_be_kept(
    expected: Expectation, leader: int | None, now: int, words: str
) -> None:
    assert words in left(expected, leader, KEYS[:now])
