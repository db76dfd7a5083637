"""Rules about what is sent and what has happened then; the lab's proxies saw every request."""

from typing import Any

import pytest

from breakglass.console.truth import wrong_leaders
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import RecoveryResult
from tests.lab.asking import EARLIEST, consume, list_offset, out_of_range
from tests.lab.recover.incident.beside import READ_ON, READ_TO, TRIMMED, TRIMMED_TO
from tests.lab.recover.incident.conftest import CARTS, MOVING, Attempt, Recovered
from tests.lab.recover.session import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS
from tests.lab.scenarios.damaged import Damaged

pytestmark = pytest.mark.main

BILLING = TopicPartition("billing", 0)


def orders_written(recovered: Recovered) -> list[Any]:
    from kafka.protocol.admin import AlterPartitionReassignmentsRequest

    return recovered.watched.requests(
        ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest
    )


def elections_held(recovered: Recovered) -> list[Any]:
    from kafka.protocol.admin import ElectLeadersRequest

    return recovered.watched.requests(ELECT_LEADERS, ElectLeadersRequest)


def partitions_elected(request: Any) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic, number)
        for topic in request.topic_partitions
        for number in topic.partitions
    ]


@pytest.mark.parametrize("place", range(len(CARTS)))
def test_r01_it_is_refused_before_the_reorder(attempt: Attempt, place: int) -> None:
    outcome = attempt.outcomes[place]
    assert (outcome.partition, outcome.result) == (CARTS[place], RecoveryResult.REFUSED)
    assert outcome.reason == (
        "b4 would be elected instead of b1: stop broker 4, wait until it is fenced, read again"
    )
    assert attempt.changes == ()


def test_r12_a_partition_that_is_being_moved_is_refused_too(attempt: Attempt) -> None:
    outcome = attempt.outcomes[-1]
    assert (outcome.partition, outcome.result) == (MOVING, RecoveryResult.REFUSED)
    assert outcome.reason == "a reassignment runs: cancel it or let it end, then plan again"


def test_every_partition_but_the_one_being_moved_is_led_by_the_best_replica(
    lab: Damaged, recovered: Recovered
) -> None:
    assert list(wrong_leaders(recovered.outcomes, lab.truth)) == []
    assert {outcome.result for outcome in recovered.outcomes} == {RecoveryResult.ELECTED}
    assert len(recovered.outcomes) == len(recovered.found.assessments) - len([MOVING])


@pytest.mark.parametrize("partition", CARTS)
def test_r01_where_the_empty_leader_was_stopped_nothing_that_was_left_is_lost(
    lab: Damaged, recovered: Recovered, partition: TopicPartition
) -> None:
    truth = lab.truth_of(partition)
    left = {
        (span.epoch, offset)
        for replica in truth.replicas
        for span in replica.epochs
        for offset in range(span.start, span.end)
    }
    keys = {
        offset: key
        for written in truth.written
        for offset, key in enumerate(written.keys, written.start)
        if (written.epoch, offset) in left
    }
    assert len(keys) == 125
    assert consume(lab.cluster, partition) == keys


def test_r04_one_partition_then_ten_then_the_rest(recovered: Recovered) -> None:
    sizes = [len(partitions_elected(election)) for election in elections_held(recovered)]
    assert sizes == [1, 10, len(recovered.targets) - 11]


def test_r04_the_whole_ranking_is_written_as_the_order(recovered: Recovered) -> None:
    first: dict[TopicPartition, tuple[int, ...]] = {}
    for request in orders_written(recovered):
        for topic in request.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.name, one.partition_index)
                first.setdefault(partition, tuple(one.replicas))
    assert first == {target.partition: target.order for target in recovered.targets}
    assert first[TopicPartition("invoices", 0)] == (1, 3, 2)
    assert first[CARTS[1]] == (1, 2, 4)


def test_r05_no_assignment_ever_loses_or_gains_a_replica(recovered: Recovered) -> None:
    assigned = {
        assessment.partition: sorted(assessment.evidence.state.assignment)
        for assessment in recovered.found.assessments
    }
    written = [
        (TopicPartition(topic.name, partition.partition_index), sorted(partition.replicas))
        for request in orders_written(recovered)
        for topic in request.topics
        for partition in topic.partitions
    ]
    assert written
    assert [pair for pair in written if assigned[pair[0]] != pair[1]] == []
    assert not any(order.allow_replication_factor_change for order in orders_written(recovered))


def test_r10_followers_give_up_what_lies_before_the_new_leaders_log_start(
    lab: Damaged, recovered: Recovered
) -> None:
    for partition, start in zip(TRIMMED, TRIMMED_TO, strict=True):
        lab.cluster.wait_until(
            lambda partition=partition, start=start: (  # type: ignore[misc]
                list_offset(lab.cluster, 2, partition, EARLIEST).offset == start
            ),
            f"b2 to begin {partition} at {start}",
        )


def test_r18_a_transaction_that_nobody_will_end_is_told_after_the_recovery(
    lab: Damaged, recovered: Recovered
) -> None:
    assert isinstance(recovered.left_open, tuple)
    (left,) = recovered.left_open
    assert (left.partition, left.start_offset, left.hanging) == (BILLING, 0, True)
    assert str(left.producer_id) == lab.truth.notes["hanging producer id"]
    assert consume(lab.cluster, BILLING, isolation="read_committed") == {}


def test_r19_the_group_that_was_listed_is_out_of_range_now(
    lab: Damaged, recovered: Recovered
) -> None:
    assert out_of_range(lab.cluster, READ_ON, READ_TO)


def test_r23_every_list_that_is_sent_names_something(recovered: Recovered) -> None:
    for request in orders_written(recovered):
        assert request.topics
        for topic in request.topics:
            assert topic.partitions
            assert all(partition.replicas for partition in topic.partitions)
    for request in elections_held(recovered):
        assert request.topic_partitions
        assert all(topic.partitions for topic in request.topic_partitions)


def test_r23_each_election_names_what_its_reorder_named(recovered: Recovered) -> None:
    assert (
        recovered.watched.changes
        == [ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS] * 3
    )
