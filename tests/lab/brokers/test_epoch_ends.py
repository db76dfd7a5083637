"""Fetch v12 tells where a replica's epochs end, whoever leads, and moves no records (KIP-595)."""

from typing import Any

import pytest

from breakglass.services.kafka.replicas.epoch_ends import (
    FETCH_VERSION,
    FUTURE_REPLICA,
    PAST_EVERY_LOG,
    EpochEnd,
    read_epoch_ends,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.truth import ReplicaTruth
from breakglass.services.model import TopicPartition, Unknown
from tests.lab.brokers.conftest import SECONDS
from tests.lab.scenarios.damaged import Damaged

LEDGER, ORDERS = TopicPartition("ledger", 0), TopicPartition("orders", 0)
DEBUGGING_REPLICA, CONSUMER = -2, -1
OFFSET_OUT_OF_RANGE = 1


def told(sender: Sender, broker: int, partition: TopicPartition, epoch: int) -> EpochEnd | None:
    answer = read_epoch_ends(sender, broker, {partition: epoch}, Deadline.after(SECONDS))[partition]
    assert not isinstance(answer, Unknown), answer
    return answer.epoch_end


def on_disk(replica: ReplicaTruth, epoch: int) -> EpochEnd | None:
    """The largest epoch not above *epoch*, and its end; None above the last one."""
    if replica.last_epoch is None or epoch > replica.last_epoch:
        return None
    found = [span for span in replica.epochs if span.epoch <= epoch][-1]
    return EpochEnd(found.epoch, found.end)


def last_epoch(offline: Damaged, broker: int) -> int:
    """The last epoch that wrote to a replica of the ledger."""
    last = offline.truth_of(LEDGER).replica(broker).last_epoch
    assert last is not None
    return last


def fetch(sender: Sender, partition: TopicPartition, replica: int, epoch: int) -> Any:
    """The raw answer of b1 for one partition."""
    from kafka.protocol.consumer import FetchRequest, FetchResponse

    topic = FetchRequest.FetchTopic
    wanted = topic.FetchPartition(
        partition=partition.partition,
        fetch_offset=PAST_EVERY_LOG,
        last_fetched_epoch=epoch,
        partition_max_bytes=1_000_000,
    )
    request = FetchRequest(
        replica_id=replica,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[topic(topic=partition.topic, partitions=[wanted])],
    )
    deadline = Deadline.after(SECONDS)
    answer = sender.call(1, request, FetchResponse, deadline, max_version=FETCH_VERSION)
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("partition", [LEDGER, ORDERS], ids=str)
@pytest.mark.parametrize("broker", [1, 2])
def test_every_epoch_is_answered_as_the_segments_say(
    offline: Damaged, sender: Sender, broker: int, partition: TopicPartition
) -> None:
    replica = offline.truth_of(partition).replica(broker)
    epochs = range(offline.state(partition).leader_epoch + 2)
    answers = [told(sender, broker, partition, epoch) for epoch in epochs]
    assert answers == [on_disk(replica, epoch) for epoch in epochs]


@pytest.mark.parametrize("replica", [FUTURE_REPLICA, DEBUGGING_REPLICA, CONSUMER])
def test_any_replica_id_is_answered_and_no_record_moves(
    offline: Damaged, sender: Sender, replica: int
) -> None:
    last = last_epoch(offline, 1)
    answer = fetch(sender, LEDGER, replica, last)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (last, 125)
    assert not answer.records
    assert fetch(sender, LEDGER, replica, last + 1).error_code == OFFSET_OUT_OF_RANGE


def test_a_log_without_records_ends_at_its_start(offline: Damaged, sender: Sender) -> None:
    create_topic(offline.cluster, "without-records", [[1]])
    empty = TopicPartition("without-records", 0)
    assert told(sender, 1, empty, 0) == EpochEnd(0, 0)
    assert told(sender, 1, empty, 1) is None
