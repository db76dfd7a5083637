"""Open transactions, and which of them nobody will ever end (R18)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from breakglass.services.kafka.cluster.open_transactions import (
    OpenTransaction,
    read_open_transactions,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition, Unknown
from tests.kit.fake_cluster import FakeCluster

PATIENCE = 10.0
BILLING = TopicPartition("billing", 0)
Producers = dict[int, int]
"""Where the open transaction of each producer id began; -1 for none."""


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as cluster:
        yield cluster


@pytest.fixture
def sender(cluster: FakeCluster) -> Iterator[Sender]:
    with closing(cluster.sender()) as sender:
        yield sender


def producers(cluster: FakeCluster, active: Producers, code: int = 0) -> None:
    """Let broker 1 lead `billing-0` with these producers."""
    topic_class = DescribeProducersResponse.TopicResponse
    partition_class = topic_class.PartitionResponse
    states = [
        partition_class.ProducerState(
            producer_id=one, producer_epoch=2, last_timestamp=9, current_txn_start_offset=start
        )
        for one, start in active.items()
    ]
    told = partition_class(partition_index=0, error_code=code, active_producers=states)
    answer = DescribeProducersResponse(topics=[topic_class(name="billing", partitions=[told])])
    cluster.brokers[1].serve(DescribeProducersRequest, lambda _: answer)


def transactions(cluster: FakeCluster, broker: int, states: dict[int, str], code: int = 0) -> None:
    """Let *broker* coordinate transactions: state by producer id."""
    state_class = ListTransactionsResponse.TransactionState

    def answer(request: Any) -> Any:
        return ListTransactionsResponse(
            error_code=code,
            transaction_states=[
                state_class(transactional_id=f"t{one}", producer_id=one, transaction_state=state)
                for one, state in states.items()
                if one in request.producer_id_filters
            ],
        )

    cluster.brokers[broker].serve(ListTransactionsRequest, answer)


def includes(cluster: FakeCluster, broker: int, *partitions: int, code: int = 0) -> None:
    """Let *broker* describe a transaction under way with these partitions of `billing`."""
    state = DescribeTransactionsResponse.TransactionState
    topics = [state.TopicData(topic="billing", partitions=list(partitions))]
    told = state(transactional_id="t1001", error_code=code, topics=topics)
    answer = DescribeTransactionsResponse(transaction_states=[told])
    cluster.brokers[broker].serve(DescribeTransactionsRequest, lambda _: answer)


def read(sender: Sender) -> tuple[OpenTransaction, ...] | Unknown:
    return read_open_transactions(sender, {BILLING: 1}, [1, 2], Deadline.after(PATIENCE))


@pytest.mark.parametrize(
    ("state", "hanging"),
    [
        ("Ongoing", False),
        ("PrepareCommit", False),
        ("CompleteCommit", True),
        ("CompleteAbort", True),
        ("Empty", True),
    ],
)
def test_r18_a_transaction_that_its_coordinator_has_ended_hangs(
    cluster: FakeCluster, sender: Sender, state: str, hanging: bool
) -> None:
    producers(cluster, {1001: 42})
    transactions(cluster, 1, {})
    transactions(cluster, 2, {1001: state})
    includes(cluster, 2, 0)
    found = read(sender)
    assert not isinstance(found, Unknown)
    assert [
        (transaction.producer_id, transaction.start_offset, transaction.hanging)
        for transaction in found
    ] == [(1001, 42, hanging)]


def test_r18_one_whose_producer_has_another_under_way_hangs(
    cluster: FakeCluster, sender: Sender
) -> None:
    """Its transaction under way does not include this partition, so it will not be ended here."""
    producers(cluster, {1001: 42})
    transactions(cluster, 1, {})
    transactions(cluster, 2, {1001: "Ongoing"})
    includes(cluster, 2, 5)
    found = read(sender)
    assert not isinstance(found, Unknown)
    assert found[0].hanging is True
    includes(cluster, 2, code=53)
    found = read(sender)
    assert not isinstance(found, Unknown)
    assert isinstance(found[0].hanging, Unknown)


def test_r18_a_coordinator_that_is_silent_hides_no_other(
    cluster: FakeCluster, sender: Sender
) -> None:
    producers(cluster, {1001: 42})
    transactions(cluster, 1, {}, code=14)
    transactions(cluster, 2, {1001: "CompleteCommit"})
    found = read(sender)
    assert not isinstance(found, Unknown)
    assert found[0].hanging is True


def test_r22_one_that_no_coordinator_lists_may_be_hidden_by_an_acl_and_alive(
    cluster: FakeCluster, sender: Sender
) -> None:
    producers(cluster, {1001: 42})
    for broker in (1, 2):
        transactions(cluster, broker, {})
    found = read(sender)
    assert not isinstance(found, Unknown)
    assert isinstance(found[0].hanging, Unknown)
    assert "DESCRIBE on its transactional id" in found[0].hanging.reason


def test_producers_without_an_open_transaction_are_none_and_no_coordinator_is_asked(
    cluster: FakeCluster, sender: Sender
) -> None:
    producers(cluster, {1001: -1})
    assert read(sender) == ()
    assert cluster.brokers[2].received == []


def test_r18_without_its_coordinators_word_it_is_unknown_whether_one_hangs(
    cluster: FakeCluster, sender: Sender
) -> None:
    producers(cluster, {1001: 42})
    transactions(cluster, 1, {}, code=14)
    transactions(cluster, 2, {})
    found = read(sender)
    assert not isinstance(found, Unknown)
    assert isinstance(found[0].hanging, Unknown)
    assert "b1 answers" in found[0].hanging.reason


@pytest.mark.parametrize(("code", "reason"), [(29, "READ on topic billing"), (6, "ask again")])
def test_r22_a_leader_that_does_not_tell_makes_them_unknown_with_the_reason(
    cluster: FakeCluster, sender: Sender, code: int, reason: str
) -> None:
    producers(cluster, {}, code=code)
    found = read(sender)
    assert isinstance(found, Unknown)
    assert reason in found.reason
