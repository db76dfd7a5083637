"""ElectLeaders v0-3 on the wire, and what it refuses to put there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import MalformedMessage, UnsupportedByCluster
from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    designated_election,
)
from breakglass.services.model import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_3 = TopicPartition("orders", 3)
LEDGER_1 = TopicPartition("ledger", 1)

INT32 = st.integers(-(2**31), 2**31 - 1)
PARTITIONS = st.builds(TopicPartition, st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1))
LEADERS = st.dictionaries(PARTITIONS, st.integers(0, 2**31 - 1), min_size=1, max_size=20)


def stock_request() -> ElectLeadersRequest:
    """An unclean election of orders-0 without a designated leader."""
    topic = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0])
    return ElectLeadersRequest(election_type=1, topic_partitions=[topic], timeout_ms=1000)


def test_version_3_carries_the_designated_leaders_beside_the_partitions() -> None:
    request = designated_election({ORDERS_0: 2, ORDERS_3: 1, LEDGER_1: 3}, timeout_ms=1000)
    assert request.encode(version=3) == bytes.fromhex(
        "02"  # election type: designated
        "03"  # two topics
        "07 6f7264657273"  # "orders"
        "03 00000000 00000003"  # partitions 0 and 3
        "03 00000002 00000001"  # led by 2 and 1
        "00"
        "07 6c6564676572"  # "ledger"
        "02 00000001"
        "02 00000003"
        "00"
        "000003e8"  # 1,000 ms
        "00"
    )


def test_a_version_3_request_without_designees_sends_null() -> None:
    assert stock_request().encode(version=3) == bytes.fromhex(
        "01 02 07 6f7264657273 02 00000000 00 00 000003e8 00"
    )


def test_version_2_is_what_kafka_4_3_sends() -> None:
    assert stock_request().encode(version=2) == bytes.fromhex(
        "01 02 07 6f7264657273 02 00000000 00 000003e8 00"
    )


def test_version_1_is_not_flexible() -> None:
    assert stock_request().encode(version=1) == bytes.fromhex(
        "01 00000001 0006 6f7264657273 00000001 00000000 000003e8"
    )


def test_the_answer_has_the_same_bytes_in_versions_2_and_3() -> None:
    result = ElectLeadersResponse.ReplicaElectionResult
    answer = ElectLeadersResponse(
        throttle_time_ms=7,
        error_code=0,
        replica_election_results=[
            result(
                topic="orders",
                partition_result=[
                    result.PartitionResult(partition_id=3, error_code=84, error_message="no")
                ],
            )
        ],
    )
    expected = bytes.fromhex("00000007 0000 02 07 6f7264657273 02 00000003 0054 03 6e6f 00 00 00")
    assert [bytes(answer.encode(version=version)) for version in (2, 3)] == [expected] * 2


@given(LEADERS, INT32)
def test_a_designated_election_comes_back_as_it_was_sent(
    leaders: dict[TopicPartition, int], timeout_ms: int
) -> None:
    sent = designated_election(leaders, timeout_ms)
    read = ElectLeadersRequest.decode(sent.encode(version=3), version=3)
    assert read.timeout_ms == timeout_ms
    assert leaders == {
        TopicPartition(topic.topic, partition): designee
        for topic in read.topic_partitions
        for partition, designee in zip(topic.partitions, topic.designated_leaders, strict=True)
    }


@given(LEADERS, st.data())
def test_a_request_cut_short_is_malformed(
    leaders: dict[TopicPartition, int], data: st.DataObject
) -> None:
    whole = designated_election(leaders, 1000).encode(version=3)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MalformedMessage):
        ElectLeadersRequest.decode(whole[:cut], version=3)


def test_bytes_after_the_message_are_malformed() -> None:
    whole = stock_request().encode(version=3)
    with pytest.raises(MalformedMessage, match="takes 21 bytes of 22"):
        ElectLeadersRequest.decode(whole + b"\0", version=3)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    for message_class, version in ((ElectLeadersRequest, 3), (ElectLeadersResponse, 1)):
        try:
            message_class.decode(body, version=version)
        except MalformedMessage:
            continue


@pytest.mark.parametrize("topics", [None, []])
def test_r23_an_election_of_every_partition_cannot_be_encoded(topics: list[Any] | None) -> None:
    request = ElectLeadersRequest(election_type=1, topic_partitions=topics, timeout_ms=1000)
    with pytest.raises(ValueError, match="every partition"):
        request.encode(version=2)


def test_r23_a_topic_without_partitions_cannot_be_encoded() -> None:
    topic = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[])
    request = ElectLeadersRequest(election_type=1, topic_partitions=[topic], timeout_ms=1000)
    with pytest.raises(ValueError, match="no partition of topic orders"):
        request.encode(version=2)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_designated_election_never_becomes_an_unclean_one(version: int) -> None:
    with pytest.raises(UnsupportedByCluster, match="cannot designate"):
        designated_election({ORDERS_0: 2}, 1000).encode(version=version)


@pytest.mark.parametrize("designees", [None, [], [2], [2, 1, 3], [2, -1]])
def test_each_partition_needs_its_designated_leader(designees: list[int] | None) -> None:
    topic = ElectLeadersRequest.TopicPartitions(
        topic="orders", partitions=[0, 3], designated_leaders=designees
    )
    request = ElectLeadersRequest(
        election_type=ElectionType.DESIGNATED, topic_partitions=[topic], timeout_ms=1000
    )
    with pytest.raises(ValueError, match="designated leader"):
        request.encode(version=3)
