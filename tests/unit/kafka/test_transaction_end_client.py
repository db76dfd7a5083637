"""A transaction's marker, written by hand: what is sent, and what a refusal says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from breakglass.services.errors import ReadOnly
from breakglass.services.kafka.transaction_end_client import EndMarker, TransactionEndClient
from breakglass.services.kafka.wire.api_keys import READ, TRANSACTION_ENDS
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.transaction_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster

PATIENCE = 10.0
BILLING = TopicPartition("billing", 3)
MARKER = EndMarker(4_000, 7, 5, commit=True)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as cluster:
        yield cluster


def answering(cluster: FakeCluster, code: int, *, partition: int = 3) -> list[Any]:
    """Let the broker answer with *code*; returns what it is asked."""
    asked: list[Any] = []
    marker = WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic = marker.WritableTxnMarkerTopicResult
    told = topic.WritableTxnMarkerPartitionResult(partition_index=partition, error_code=code)

    def answer(request: Any) -> Any:
        asked.append(request)
        topics = [topic(name="billing", partitions=[told])]
        return WriteTxnMarkersResponse(markers=[marker(producer_id=4_000, topics=topics)])

    cluster.brokers[1].serve(WriteTxnMarkersRequest, answer, (1, 1))
    return asked


def end(cluster: FakeCluster, allowed: frozenset[int]) -> str:
    with closing(cluster.sender(allowed)) as sender:
        return TransactionEndClient(sender).end(1, BILLING, MARKER, Deadline.after(PATIENCE))


def test_r18_the_marker_is_sent_as_its_coordinator_wrote_it(cluster: FakeCluster) -> None:
    asked = answering(cluster, 0)
    assert end(cluster, READ | TRANSACTION_ENDS) == ""
    ((marker,),) = [one.markers for one in asked]
    assert (marker.producer_id, marker.producer_epoch) == (4_000, 7)
    assert (marker.coordinator_epoch, marker.transaction_result) == (5, True)
    assert [(topic.name, list(topic.partition_indexes)) for topic in marker.topics] == [
        ("billing", [3])
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (31, "not allowed: needs ALTER on CLUSTER"),
        (19, "min.insync.replicas"),
        (52, "a newer coordinator"),
        (-1, "the broker's log says why"),
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_r18_what_is_refused_says_what_to_do(cluster: FakeCluster, code: int, words: str) -> None:
    answering(cluster, code)
    assert words in end(cluster, READ | TRANSACTION_ENDS)


def test_r18_an_answer_about_another_partition_is_none(cluster: FakeCluster) -> None:
    answering(cluster, 0, partition=4)
    assert end(cluster, READ | TRANSACTION_ENDS) == "left out of the answer"


def test_r18_a_session_that_reads_sends_no_marker(cluster: FakeCluster) -> None:
    asked = answering(cluster, 0)
    with pytest.raises(ReadOnly):
        end(cluster, READ)
    assert asked == []
