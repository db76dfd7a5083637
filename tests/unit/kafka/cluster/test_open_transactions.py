"""Open transactions, and which of them nobody will ever end (R18)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol import admin

from breakglass.services.kafka.cluster.open_transactions import (
    OpenTransaction,
    ended_beside,
    read_open_transactions,
)
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition, Unknown
from tests.kit.deadlines import ample
from tests.kit.fake_cluster import FakeCluster

BILLING = TopicPartition("billing", 0)
BEGAN, TIMEOUT = 1_000_000, 60_000
Producers = dict[int, int]
"""Where the open transaction of each producer id began; -1 for none."""


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as cluster:
        yield cluster


def producers(cluster: FakeCluster, active: Producers, code: int = 0, wrote_ms: int = 0) -> None:
    """Let broker 1 lead `billing-0` with these producers."""
    topic_class = admin.DescribeProducersResponse.TopicResponse
    partition_class = topic_class.PartitionResponse
    told = {"producer_epoch": 2, "last_timestamp": wrote_ms}
    states = [
        partition_class.ProducerState(producer_id=one, current_txn_start_offset=start, **told)
        for one, start in active.items()
    ]
    partition = partition_class(partition_index=0, error_code=code, active_producers=states)
    topics = [topic_class(name="billing", partitions=[partition])]
    answer = admin.DescribeProducersResponse(topics=topics)
    cluster.brokers[1].serve(admin.DescribeProducersRequest, lambda _: answer)


def transactions(cluster: FakeCluster, broker: int, states: dict[int, str], code: int = 0) -> None:
    """Let *broker* coordinate transactions: state by producer id."""
    state_class = admin.ListTransactionsResponse.TransactionState

    def answer(request: Any) -> Any:
        told = [
            state_class(transactional_id=f"t{one}", producer_id=one, transaction_state=state)
            for one, state in states.items()
            if one in request.producer_id_filters
        ]
        return admin.ListTransactionsResponse(error_code=code, transaction_states=told)

    cluster.brokers[broker].serve(admin.ListTransactionsRequest, answer)


def includes(cluster: FakeCluster, broker: int, *partitions: int, code: int = 0) -> None:
    """Let *broker* describe a transaction under way with these partitions of `billing`."""
    state = admin.DescribeTransactionsResponse.TransactionState
    topics = [state.TopicData(topic="billing", partitions=list(partitions))]
    told = state(
        transactional_id="t1001",
        error_code=code,
        topics=topics,
        transaction_start_time_ms=BEGAN,
        transaction_timeout_ms=TIMEOUT,
    )
    answer = admin.DescribeTransactionsResponse(transaction_states=[told])
    cluster.brokers[broker].serve(admin.DescribeTransactionsRequest, lambda _: answer)


def read(sender: Sender) -> tuple[OpenTransaction, ...] | Unknown:
    return read_open_transactions(sender, {BILLING: 1}, [1, 2], ample())


def hanging(sender: Sender) -> bool | Unknown:
    """Whether the one open transaction hangs."""
    found = read(sender)
    assert not isinstance(found, Unknown)
    (transaction,) = found
    assert (transaction.producer_id, transaction.start_offset) == (1001, 42)
    return transaction.hanging


@pytest.mark.parametrize(
    ("state", "partitions", "code", "hangs"),
    [
        ("Ongoing", (0,), 0, False),
        ("PrepareCommit", (0,), 0, False),
        ("CompleteCommit", (0,), 0, True),
        ("CompleteAbort", (0,), 0, True),
        ("Empty", (0,), 0, True),
        ("Ongoing", (5,), 0, True),
        ("Ongoing", (), 53, None),
    ],
)
def test_r18_a_transaction_hangs_that_its_coordinator_has_ended_or_does_not_include(
    cluster: FakeCluster,
    sender: Sender,
    state: str,
    partitions: tuple[int, ...],
    code: int,
    hangs: bool | None,
) -> None:
    """One that is under way without this partition will not be ended here."""
    producers(cluster, {1001: 42})
    transactions(cluster, 1, {})
    transactions(cluster, 2, {1001: state})
    includes(cluster, 2, *partitions, code=code)
    found = hanging(sender)
    assert isinstance(found, Unknown) if hangs is None else found is hangs


@pytest.mark.parametrize(
    ("code", "of_the_other", "reason"),
    [
        (14, {1001: "CompleteCommit"}, None),
        (14, {}, "b1 answers"),
        (0, {}, "DESCRIBE on its transactional id"),
    ],
    ids=["another coordinator has it", "one may have it", "an ACL may hide it"],
)
def test_r18_r22_without_its_coordinators_word_it_is_unknown_whether_one_hangs(
    cluster: FakeCluster,
    sender: Sender,
    code: int,
    of_the_other: dict[int, str],
    reason: str | None,
) -> None:
    producers(cluster, {1001: 42})
    transactions(cluster, 1, {}, code=code)
    transactions(cluster, 2, of_the_other)
    found = hanging(sender)
    assert found is True if reason is None else isinstance(found, Unknown)
    assert reason is None or reason in str(found)


@pytest.mark.parametrize(("code", "reason"), [(29, "READ on topic billing"), (6, "")])
def test_r22_a_leader_that_does_not_tell_makes_them_unknown_with_the_reason(
    cluster: FakeCluster, sender: Sender, code: int, reason: str
) -> None:
    producers(cluster, {}, code=code)
    found = read(sender)
    assert isinstance(found, Unknown)
    assert reason in found.reason


@pytest.mark.parametrize(("state", "at"), [("Ongoing", BEGAN + TIMEOUT), ("PrepareCommit", None)])
def test_r28_it_is_said_when_a_coordinator_aborts_what_it_has_not_decided(
    cluster: FakeCluster, sender: Sender, state: str, at: int | None
) -> None:
    producers(cluster, {1001: 42})
    transactions(cluster, 1, {1001: state})
    transactions(cluster, 2, {})
    includes(cluster, 1, 0, 5)
    found = read(sender)
    assert not isinstance(found, Unknown)
    (one,) = found
    assert (one.aborts_at_ms, one.began_ms) == (at, BEGAN)
    assert one.beside == (TopicPartition("billing", 5),)
    assert ("ABORT" in one.left_to) is (at is not None)


@pytest.mark.parametrize(
    ("start", "wrote_ms", "ended"),
    [
        pytest.param(-1, BEGAN, True, id="it has ended there since it began"),
        pytest.param(-1, BEGAN - 1, False, id="an earlier transaction of the producer"),
        pytest.param(42, BEGAN, False, id="it is open there"),
    ],
)
def test_r28_a_coordinator_that_says_ongoing_after_a_marker_was_set_back(
    cluster: FakeCluster, sender: Sender, start: int, wrote_ms: int, ended: bool
) -> None:
    producers(cluster, {1001: start}, wrote_ms=wrote_ms)
    one = OpenTransaction(
        TopicPartition("__consumer_offsets", 3),
        1001,
        2,
        7,
        0,
        "Ongoing",
        began_ms=BEGAN,
        beside=(BILLING,),
        aborts_at_ms=BEGAN + TIMEOUT,
    )
    found = ended_beside(sender, [one], {BILLING: 1}, ample())
    assert found == ({1001: (BILLING,)} if ended else {})
    hanging = replace(one, ended_on=found.get(1001, ())).hanging
    assert isinstance(hanging, Unknown) if ended else hanging is False


def test_r28_a_leader_that_does_not_answer_proves_no_end(
    cluster: FakeCluster, sender: Sender
) -> None:
    producers(cluster, {1001: -1}, code=6, wrote_ms=BEGAN)
    one = OpenTransaction(
        TopicPartition("a", 0), 1001, 2, 7, 0, "Ongoing", began_ms=BEGAN, beside=(BILLING,)
    )
    assert ended_beside(sender, [one], {BILLING: 1}, ample()) == {}
