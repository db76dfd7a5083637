"""Brokers whose unread logs elections gave up: named once each, as long as somebody leads."""

from __future__ import annotations

import pytest

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult
from breakglass.services.recovery.guarded.given_up import given_up
from breakglass.services.recovery.judgement.starting import COPY_FIRST, SAFE_WHEN
from tests.unit.recovery.execution.targets import target

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]


def outcome(
    partition: TopicPartition, result: RecoveryResult, leader: int | None = 1
) -> PartitionOutcome:
    return PartitionOutcome(target(partition), result, leader=leader)


def test_each_broker_is_named_once_with_its_partitions() -> None:
    outcomes = [outcome(partition, RecoveryResult.ELECTED) for partition in PARTITIONS]
    first, second = given_up(outcomes, {PARTITIONS[0]: (2, 3), PARTITIONS[2]: (3,)})
    assert (first.broker, first.partitions) == (2, (PARTITIONS[0],))
    assert second.partitions == (PARTITIONS[0], PARTITIONS[2])
    assert all(word in second.advice for word in ("b3", COPY_FIRST, SAFE_WHEN))


@pytest.mark.parametrize(
    ("result", "leader", "named"),
    [
        (RecoveryResult.ELECTED, 1, True),
        (RecoveryResult.ELECTED_ANOTHER, 2, True),
        (RecoveryResult.ELECTED_ANOTHER, 3, False),
        (RecoveryResult.UNKNOWN, None, True),
        (RecoveryResult.ALREADY_ONLINE, 1, True),
        (RecoveryResult.ALREADY_ONLINE, 3, False),
        (RecoveryResult.REFUSED, None, False),
        (RecoveryResult.NOT_ATTEMPTED, None, False),
    ],
)
def test_it_is_named_where_another_leads_or_may_lead(
    result: RecoveryResult, leader: int | None, named: bool
) -> None:
    found = given_up([outcome(PARTITIONS[0], result, leader)], {PARTITIONS[0]: (3,)})
    assert bool(found) is named
