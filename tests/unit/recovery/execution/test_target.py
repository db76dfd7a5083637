"""What outcomes amount to, and targets that survive being written down."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import ReplicaLog, TopicPartition
from breakglass.services.recovery.execution.steps import described, target_of_item
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    exit_code,
    order_left,
    target_of,
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
