"""Answers to a Fetch are read as kafka-python encodes them, in each layout that there is."""

from __future__ import annotations

import io
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse

from breakglass.services.pipeline.batches.answer import FetchAnswer

TOPIC_ID = UUID("11111111-2222-3333-4444-555555555555")
longs = st.integers(-1, 2**63 - 1)
versions = pytest.mark.parametrize("version", range(4, 14))

Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData


def encoded(version: int, *partitions: Any, **fields: Any) -> memoryview:
    topic = Topic(topic="orders", topic_id=TOPIC_ID, partitions=list(partitions))
    answer = FetchResponse(responses=[topic] if partitions else [], **fields)
    return memoryview(bytes(answer.encode(version=version)))


@versions
@given(
    records=st.none() | st.binary(max_size=300),
    aborted=st.none() | st.lists(st.tuples(longs, longs), max_size=3),
    marks=st.tuples(longs, longs),
    error=st.integers(-1, 120),
    throttle=st.integers(0, 2**31 - 1),
)
def test_everything_of_an_answer_is_read(
    version: int,
    records: bytes | None,
    aborted: list[tuple[int, int]] | None,
    marks: tuple[int, int],
    error: int,
    throttle: int,
) -> None:
    made = Partition.AbortedTransaction
    partition = Partition(
        partition_index=3,
        error_code=error,
        high_watermark=7,
        last_stable_offset=marks[0],
        log_start_offset=marks[1],
        aborted_transactions=None
        if aborted is None
        else [made(producer_id=producer, first_offset=first) for first, producer in aborted],
        records=records,
    )
    body = encoded(version, partition, throttle_time_ms=throttle)
    log_start = marks[1] if version >= 5 else -1
    expected = FetchAnswer(
        throttle, error, marks[0], log_start, tuple(aborted or ()), None, records or b""
    )
    assert FetchAnswer.decode(body, version=version) == expected


@pytest.mark.parametrize("records", [None, b""])
@pytest.mark.parametrize("version", [12, 13])
def test_where_the_log_left_the_one_that_was_read_is_told(
    version: int, records: bytes | None
) -> None:
    diverging = Partition.EpochEndOffset(epoch=4, end_offset=77)
    leader = Partition.LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    partition = Partition(
        partition_index=3,
        high_watermark=7,
        diverging_epoch=diverging,
        current_leader=leader,
        records=records,
    )
    answer = FetchAnswer.decode(encoded(version, partition), version=version)
    assert (answer.diverged, answer.records) == ((4, 77), b"")


@versions
def test_an_answer_without_the_partition_says_so(version: int) -> None:
    answer = FetchAnswer.decode(encoded(version, error_code=70), version=version)
    assert (answer.empty, answer.error_code) == (True, 70 if version >= 7 else 0)


@versions
@given(cut=st.integers(1, 120))
def test_an_answer_that_is_cut_is_an_error(version: int, cut: int) -> None:
    partition = Partition(partition_index=3, high_watermark=7, records=b"x" * 90)
    body = encoded(version, partition)
    # Tagged fields end it, and there are none: without the last ones nothing is missing.
    kept = body[: max(0, len(body) - cut - 3)]
    with pytest.raises((struct.error, ValueError), match="bytes"):
        FetchAnswer.decode(kept, version=version)


@versions
def test_the_header_is_passed_over_as_kafka_python_does(version: int) -> None:
    head = io.BytesIO(bytes(9))
    FetchAnswer.parse_header(head, version)
    other = io.BytesIO(bytes(9))
    FetchResponse.parse_header(other, version=version)
    assert head.tell() == other.tell()
