"""Counting partitions in trouble, as the brokers' metrics count them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.health.counts import (
    CAPACITY,
    NOT_READ,
    BrokerCounts,
    History,
    Moves,
    PartitionCounts,
    PartitionMove,
    Sample,
    Trouble,
    count,
    held_by_broker,
    moves_of,
    partitions_in,
    tally,
    topics_to_judge,
)
from breakglass.services.model import Denied, PartitionState, Reassignment, TopicPartition, Unknown
from tests.kit.incidents import online_partition
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


def test_before_the_first_look_there_is_no_line() -> None:
    assert History().line(offline, 10, 0) == []
    assert History().since_ms is None


def test_one_look_is_one_part_however_wide_the_line() -> None:
    assert of(7).line(offline, 40, 60_000) == [7]


def test_each_look_has_its_part_while_there_is_room() -> None:
    assert of(0, 3, 3, 1).line(offline, 10, 4_000) == [0, 3, 3, 1]


def test_a_part_shows_its_highest_count() -> None:
    assert of(0, 9, 1, 2, 0, 0).line(offline, 3, 6_000) == [9, 2, 0]


def test_a_part_without_a_look_repeats_what_was_before() -> None:
    history = of(5).counted(counts(1), 9_000).counted(counts(0), 10_000)
    assert history.line(offline, 3, 12_000) == [5, 5, 1]


def test_time_in_which_nothing_could_be_read_is_a_gap() -> None:
    assert of(4, None, None, None, 2).line(offline, 3, 5_000) == [4, None, 2]


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=4 * CAPACITY))
def test_memory_is_bounded_and_no_peak_is_lost(values: list[int | None]) -> None:
    history = of(*values)
    assert len(history.moments) <= CAPACITY
    assert history.peak(offline) == max((value for value in values if value is not None), default=0)
    assert history.since_ms == 0
    line = history.line(offline, 30, len(values) * 1_000)
    shown = [number for number in line if number is not None]
    assert max(shown, default=0) == history.peak(offline)


PARTITIONS = tuple(online_partition("orders", number) for number in range(4))


def test_the_very_same_partitions_are_not_summed_up_again() -> None:
    first = tally(PARTITIONS, {"orders": 2})
    assert tally(PARTITIONS, {"orders": 2}, first) is first


def test_another_minimum_changes_the_counts_and_keeps_what_brokers_hold() -> None:
    short = (replace(PARTITIONS[0], isr=(1,)), *PARTITIONS[1:])
    first = tally(short, {"orders": 1})
    second = tally(short, {"orders": 2}, first)
    assert (first.counts.under_min_isr, second.counts.under_min_isr) == (0, 1)
    assert second.held is first.held


def test_a_change_of_one_partition_is_seen() -> None:
    first = tally(PARTITIONS, {})
    changed = (replace(PARTITIONS[0], leader=None, isr=()), *PARTITIONS[1:])
    assert (first.counts.offline, tally(changed, {}, first).counts.offline) == (0, 1)
