"""Counting partitions in trouble, as the brokers' metrics count them."""

from __future__ import annotations

import pytest

from breakglass.services.health.counts import (
    NOT_READ,
    BrokerCounts,
    Moves,
    PartitionCounts,
    PartitionMove,
    Trouble,
    count,
    held_by_broker,
    moves_of,
    partitions_in,
    topics_to_judge,
)
from breakglass.services.model import Denied, PartitionState, Reassignment, TopicPartition, Unknown
from tests.kit.work import calls_of
from tests.unit.health.clusters import state

DENIED = Denied("not allowed: needs DESCRIBE_CONFIGS on topic orders", "...")


@pytest.mark.parametrize(
    ("partition", "minimum", "expected"),
    [
        pytest.param(state(isr=(1, 2, 3)), 2, (0, 0, 0), id="whole"),
        pytest.param(state(isr=(1, 2)), 2, (0, 0, 1), id="a replica behind"),
        pytest.param(state(isr=(1,)), 2, (0, 1, 1), id="too few for acks=all"),
        pytest.param(state(isr=()), 2, (1, 0, 0), id="offline, and no more"),
        pytest.param(state(isr=(1,), leader=None), 2, (1, 0, 0), id="offline with an ISR"),
        pytest.param(state(isr=(1, 2)), 5, (0, 1, 1), id="a minimum above the factor"),
        pytest.param(state(isr=(1, 2, 3)), 5, (0, 0, 0), id="which a full ISR reaches"),
        pytest.param(
            state(isr=(1, 2, 3), assignment=(1, 2, 3, 4), moving=Reassignment((4,), ())),
            2,
            (0, 0, 0),
            id="what a reassignment adds is not missing",
        ),
        pytest.param(
            state(isr=(1, 2), assignment=(1, 2, 3, 4), moving=Reassignment((4,), ())),
            2,
            (0, 0, 1),
            id="what it keeps is",
        ),
    ],
)
def test_a_partition_counts_once_for_each_trouble_it_has(
    partition: PartitionState, minimum: int, expected: tuple[int, int, int]
) -> None:
    counted = count([partition], {"orders": minimum})
    assert (counted.offline, counted.under_min_isr, counted.under_replicated) == expected
    assert (counted.partitions, counted.unjudged) == (1, 0)


def test_a_minimum_that_may_not_be_read_makes_the_figure_a_lower_bound_with_the_reason() -> None:
    states = [state(0, isr=(1,)), state(1, isr=(1,), topic="ledger"), state(2)]
    assert count(states, {"orders": DENIED, "ledger": 2}) == PartitionCounts(
        3, 0, 1, 2, 1, DENIED.reason
    )


def test_a_minimum_that_was_not_read_yet_says_so() -> None:
    assert count([state(isr=(1,))], {}).why_unjudged == NOT_READ


def test_only_topics_with_a_leader_and_a_replica_behind_need_their_minimum() -> None:
    states = [state(0), state(1, isr=(), topic="gone"), state(2, isr=(1,), topic="slow")]
    assert topics_to_judge(states) == {"slow"}


def test_what_each_broker_holds_is_counted() -> None:
    states = [state(0, isr=(1, 2)), state(1, isr=(2, 3)), state(2, isr=(), assignment=(1, 2))]
    assert held_by_broker(states) == {
        1: BrokerCounts(3, 1, 1),
        2: BrokerCounts(3, 1, 2),
        3: BrokerCounts(2, 0, 1),
    }


def test_counting_a_partition_takes_a_few_calls_however_many_there_are() -> None:
    states = [state(number, isr=(1, 2) if number % 3 else (1, 2, 3)) for number in range(1_000)]
    assert count(states, {"orders": 2}).under_replicated == 666
    assert calls_of(lambda: count(states, {"orders": 2})) < 5 * len(states)


def test_moves_are_listed_and_summed_by_topic() -> None:
    moving = Reassignment((4,), (1,))
    states = [state(0, moving=moving), state(1), state(2, topic="ledger", moving=moving)]
    states.append(state(3, moving=moving))
    found = moves_of(states)
    assert isinstance(found, Moves)
    assert found.moves[0] == PartitionMove(TopicPartition("orders", 0), (4,), (1,))
    assert found.by_topic == [("orders", 2), ("ledger", 1)]


def test_moves_that_the_controller_does_not_tell_are_unknown() -> None:
    silent = Unknown("the controller does not answer")
    assert moves_of([state(0, moving=silent)]) == silent


def test_the_partitions_that_are_counted_can_be_named() -> None:
    whole, behind, few = state(0), state(1, isr=(1, 2)), state(2, isr=(1,))
    offline, untold = state(3, isr=()), state(4, isr=(1,), topic="ledger")
    states = [whole, behind, few, offline, untold]
    counted = count(states, {"orders": 2})
    named = {trouble: partitions_in(trouble, states, {"orders": 2}) for trouble in Trouble}
    assert named == {
        Trouble.OFFLINE: [offline],
        Trouble.UNDER_MIN_ISR: [few],
        Trouble.UNDER_REPLICATED: [behind, few, untold],
    }
    assert {trouble: counted.number(trouble) for trouble in Trouble} == {
        one: len(held) for one, held in named.items()
    }
