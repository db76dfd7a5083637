"""Counting partitions in trouble, as the brokers' metrics count them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.health.counts import (
    CAPACITY,
    NOT_READ,
    History,
    Moves,
    PartitionCounts,
    PartitionMove,
    Sample,
    Trouble,
    count,
    moves_of,
    partitions_in,
    topics_to_judge,
)
from breakglass.services.model import Denied, PartitionState, Reassignment, TopicPartition, Unknown
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


def test_a_minimum_that_is_not_read_makes_the_figure_a_lower_bound_with_the_reason() -> None:
    states = [state(0, isr=(1,)), state(1, isr=(1,), topic="ledger"), state(2)]
    counted = count(states, {"orders": DENIED, "ledger": 2})
    assert counted == PartitionCounts(3, 0, 1, 2, 1, DENIED.reason)
    assert count([state(isr=(1,))], {}).why_unjudged == NOT_READ
    assert topics_to_judge([*states, state(1, isr=(), topic="gone")]) == {"orders", "ledger"}


def test_moves_are_listed_and_summed_by_topic_or_unknown() -> None:
    moving, silent = Reassignment((4,), (1,)), Unknown("the controller does not answer")
    states = [state(0, moving=moving), state(1), state(2, topic="ledger", moving=moving)]
    found = moves_of([*states, state(3, moving=moving)])
    assert isinstance(found, Moves)
    assert found.moves[0] == PartitionMove(TopicPartition("orders", 0), (4,), (1,))
    assert found.by_topic == [("orders", 2), ("ledger", 1)]
    assert moves_of([state(0, moving=silent)]) == silent


def test_the_partitions_that_are_counted_can_be_named() -> None:
    behind, few, gone = state(1, isr=(1, 2)), state(2, isr=(1,)), state(3, isr=())
    states = [state(0), behind, few, gone, untold := state(4, isr=(1,), topic="ledger")]
    counted, found = count(states, {"orders": 2}), {}
    for trouble in Trouble:
        found[trouble] = partitions_in(trouble, states, {"orders": 2})
        assert counted.number(trouble) == len(found[trouble])
    assert found[Trouble.OFFLINE] == [gone]
    assert found[Trouble.UNDER_MIN_ISR] == [few]
    assert found[Trouble.UNDER_REPLICATED] == [behind, few, untold]


def counts(offline: int) -> PartitionCounts:
    return PartitionCounts(100, offline, 0, offline)


def offline(sample: Sample) -> int:
    return sample.offline


def of(*values: int | None) -> History:
    """One look each second; None for one that failed."""
    history = History()
    for second, value in enumerate(values):
        now = second * 1_000
        history = history.missed(now) if value is None else history.counted(counts(value), now)
    return history


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=4 * CAPACITY))
def test_memory_is_bounded_and_no_peak_is_lost(values: list[int | None]) -> None:
    history = of(*values)
    assert len(history.moments) <= CAPACITY
    assert history.peak(offline) == max((value for value in values if value is not None), default=0)
    assert history.since_ms == 0
    line = history.line(offline, 30, len(values) * 1_000)
    shown = [number for number in line if number is not None]
    assert max(shown, default=0) == history.peak(offline)
