"""What outcomes amount to, and targets that survive being written down.

In which order and in what company partitions are elected.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import INTERNAL_TOPICS, ReplicaLog, TopicPartition
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    batches,
    described,
    exit_code,
    order_left,
    target_of,
    target_of_item,
)
from tests.unit.recovery.execution.targets import ORDERS, target
from tests.unit.recovery.replicas import log, offline, silent


def outcomes(*results: RecoveryResult) -> list[PartitionOutcome]:
    """One for each of *results*; the first is of orders-0."""
    return [
        PartitionOutcome(target(TopicPartition("orders", number)), result, "why", leader=2)
        for number, result in enumerate(results)
    ]


GOOD, ONLINE, REFUSED, FAILED = (
    RecoveryResult.ELECTED,
    RecoveryResult.ALREADY_ONLINE,
    RecoveryResult.REFUSED,
    RecoveryResult.FAILED,
)
ANOTHER, UNKNOWN, NOT_TRIED = (
    RecoveryResult.ELECTED_ANOTHER,
    RecoveryResult.UNKNOWN,
    RecoveryResult.NOT_ATTEMPTED,
)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 0),
        ([GOOD, ONLINE], 0),
        ([GOOD, FAILED], 1),
        ([GOOD, ANOTHER, NOT_TRIED], 1),
        ([REFUSED, REFUSED], 3),
        ([GOOD, REFUSED], 1),
        ([REFUSED, FAILED], 1),
        ([FAILED, UNKNOWN, REFUSED], 4),
        ([GOOD, NOT_TRIED], 1),
        ([NOT_TRIED], 1),
        ([REFUSED, NOT_TRIED], 3),
        ([GOOD, REFUSED, NOT_TRIED], 1),
        ([RecoveryResult.REORDERED, REFUSED], 1),
    ],
)
def test_an_exit_code_for_all(results: Sequence[RecoveryResult], code: int) -> None:
    assert exit_code(outcomes(*results)) == code


@pytest.mark.parametrize("result", [result for result in RecoveryResult if result is not REFUSED])
def test_only_a_refusal_gets_another_word_by_an_order_that_is_left(result: RecoveryResult) -> None:
    (outcome,) = outcomes(result)
    assert order_left(outcome) == replace(outcome, order_restored=False)


def test_what_was_reordered_is_not_refused_and_names_the_next_command() -> None:
    (outcome,) = outcomes(REFUSED)
    left = order_left(outcome)
    assert (left.result, left.order_restored) == (RecoveryResult.REORDERED, False)
    assert "recover resume --write" in left.reason
    assert exit_code([left, outcome]) == 1


_ids = st.integers(0, 2**31 - 1)
_targets = st.builds(
    ElectionTarget,
    partition=st.just(ORDERS),
    topic_id=st.uuids(),
    designee=_ids,
    order=st.lists(_ids, unique=True).map(tuple),
    assignment=st.lists(_ids, unique=True).map(tuple),
    leader_epoch=_ids,
    log_end=st.none() | st.integers(0, 2**63 - 1),
    log_start=st.none() | st.integers(0, 2**63 - 1),
    min_insync_replicas=st.none() | st.integers(1, 10),
)


class TestWrittenDown:
    @given(_targets)
    def test_a_target_is_read_back_as_it_was(self, written: ElectionTarget) -> None:
        item = json.loads(json.dumps(described(written), default=str))
        assert target_of_item(ORDERS, item) == written

    def test_an_older_journal_does_not_say_where_the_log_begins(self) -> None:
        item = described(replace(target(), log_start=7))
        del item["log_start"]
        assert target_of_item(ORDERS, item) == target()

    @pytest.mark.parametrize("field", sorted({*described(target())} - {"log_start"}))
    def test_without_a_field_it_is_none(self, field: str) -> None:
        item = described(target())
        del item[field]
        assert target_of_item(ORDERS, item) is None

    @pytest.mark.parametrize(
        ("field", "value"),
        [("topic_id", "no id"), ("order", 7), ("order", ["x"]), ("designee", None)],
    )
    def test_damaged_it_is_none(self, field: str, value: object) -> None:
        assert target_of_item(ORDERS, {**described(target()), field: value}) is None


@pytest.mark.parametrize(
    ("replicas", "designee", "order"),
    [
        ((silent(3), log(1, (0, 5)), log(2, (0, 9))), 1, (3, 1, 2)),
        ((silent(3), log(1, (0, 5)), log(2, (0, 9))), 2, (2, 1, 3)),
        ((silent(3), log(1, (0, 9), fenced=True), log(2, (0, 5))), 2, (3, 1, 2)),
    ],
    ids=["the first live one", "not the first", "after a fenced one"],
)
def test_r32_beside_an_unregistered_broker_the_order_stays_as_it_is(
    replicas: tuple[ReplicaLog, ...], designee: int, order: tuple[int, ...]
) -> None:
    """Where that elects the designee; the controller takes no other one."""
    evidence = offline(*replicas, unregistered=(3,))
    assert target_of(evidence, designee).order == order


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


_partitions = st.builds(
    TopicPartition, st.sampled_from(["a", "b", *INTERNAL_TOPICS]), st.integers(0, 400)
)


@given(st.lists(_partitions, unique=True, max_size=60), st.randoms())
def test_every_target_is_in_exactly_one_batch_whatever_the_order(
    partitions: list[TopicPartition], random: Random
) -> None:
    targets = [target(partition) for partition in partitions]
    split = [one.partition for batch in batches(targets) for one in batch]
    assert sorted(split) == sorted(partitions)
    random.shuffle(targets)
    assert [one.partition for batch in batches(targets) for one in batch] == split
