"""GetReplicaLogInfo v0 in its three forms: bytes, keys, and telling the forms apart."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire.messages.kip1275 import (
    DEFAULT_API_KEY,
    LogInfoSchema,
    ReplicaLogInfoMessages,
    replica_log_info,
)

TOPIC = UUID("00112233-4455-6677-8899-aabbccddeeff")
TOPIC_HEX = TOPIC.hex

INT32 = st.integers(-(2**31), 2**31 - 1)
UUIDS = st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
QUESTIONS = st.dictionaries(UUIDS, st.lists(INT32, max_size=10), max_size=10)


def answer(messages: ReplicaLogInfoMessages, *entries: dict[str, Any], **head: Any) -> Any:
    """An answer about TOPIC with *entries*."""
    topic_class = messages.response_class.TopicPartitionLogInfo
    entry_class = topic_class.PartitionLogInfo
    topic = topic_class(
        topic_id=TOPIC, partition_log_info=[entry_class(**entry) for entry in entries]
    )
    return messages.response_class(topic_partition_log_info_list=[topic], **head)


def entry(form: LogInfoSchema, partition: int) -> dict[str, Any]:
    """An entry of *form* that reads 150 at epoch 3, last written in epoch 1."""
    shared = {"partition": partition, "log_end_offset": 150, "error_code": 0}
    if form is LogInfoSchema.KIP:
        return {**shared, "partition_leader_epoch": 3}
    return {**shared, "last_written_leader_epoch": 1, "current_leader_epoch": 3}


def head(form: LogInfoSchema) -> dict[str, Any]:
    if form is LogInfoSchema.KIP966:
        return {"broker_epoch": 42}
    return {"throttle_time_ms": 5, "broker_epoch": 42, "has_more_data": True}


def sample(form: LogInfoSchema) -> bytes:
    messages = replica_log_info(form)
    whole = answer(messages, entry(form, 0), entry(form, 7), **head(form))
    return bytes(whole.encode(version=0))


@pytest.mark.parametrize("form", [LogInfoSchema.KIP, LogInfoSchema.MERGED])
def test_the_request_of_kip_1275_and_of_the_merged_form_are_alike(form: LogInfoSchema) -> None:
    request = replica_log_info(form).request({TOPIC: [0, 7]})
    assert bytes(request.encode(version=0)) == bytes.fromhex(
        "02" + TOPIC_HEX + "03 00000000 00000007" + "00" + "00"
    )


def test_the_request_of_kip_966_begins_with_the_asking_broker() -> None:
    request = replica_log_info(LogInfoSchema.KIP966).request({TOPIC: [7]}, broker_id=4)
    assert bytes(request.encode(version=0)) == bytes.fromhex(
        "00000004" + "02" + TOPIC_HEX + "02 00000007" + "00" + "00"
    )


def test_a_null_list_of_topics_can_be_read() -> None:
    request_class = replica_log_info(LogInfoSchema.KIP).request_class
    assert request_class.decode(bytes.fromhex("00 00"), version=0).topic_partitions is None


def test_the_answer_of_kip_1275() -> None:
    assert (
        sample(LogInfoSchema.KIP)
        == bytes.fromhex(
            "00000005"  # throttled for 5 ms
            "000000000000002a"  # broker epoch 42
            "01"  # more data
            "02" + TOPIC_HEX + "03"
            "00000000 00000003 0000000000000096 0000 00"
            "00000007 00000003 0000000000000096 0000 00"
            "00"
            "00"
        )
    )


def test_the_answer_of_the_merged_form_has_the_written_epoch_first() -> None:
    assert sample(LogInfoSchema.MERGED) == bytes.fromhex(
        "00000005"
        "000000000000002a"
        "01"
        "02" + TOPIC_HEX + "03"
        "00000000 00000001 00000003 0000000000000096 0000 00"
        "00000007 00000001 00000003 0000000000000096 0000 00"
        "00"
        "00"
    )


def test_the_answer_of_kip_966_has_messages_and_no_throttle() -> None:
    messages = replica_log_info(LogInfoSchema.KIP966)
    missing = {
        **entry(LogInfoSchema.KIP966, 7),
        "log_end_offset": -1,
        "error_code": 9,
        "error_message": "gone",
    }
    whole = answer(messages, entry(LogInfoSchema.KIP966, 0), missing, broker_epoch=42)
    assert bytes(whole.encode(version=0)) == bytes.fromhex(
        "000000000000002a"
        "02" + TOPIC_HEX + "03"
        "00000000 00000001 00000003 0000000000000096 0000 00 00"
        "00000007 00000001 00000003 ffffffffffffffff 0009 05 676f6e65 00"
        "00"
        "00"
    )


@pytest.mark.parametrize("form", LogInfoSchema)
def test_an_answer_is_read_in_its_own_form_only(form: LogInfoSchema) -> None:
    body = sample(form)
    readable = []
    for candidate in LogInfoSchema:
        try:
            replica_log_info(candidate).response_class.decode(body, version=0)
        except MalformedMessage:
            continue
        readable.append(candidate)
    assert readable == [form]


@pytest.mark.parametrize("form", LogInfoSchema)
@pytest.mark.parametrize("api_key", [DEFAULT_API_KEY, 94, 1020])
def test_the_header_carries_the_key_it_was_made_for(form: LogInfoSchema, api_key: int) -> None:
    request = replica_log_info(form, api_key).request({TOPIC: [0]})
    request.API_VERSION = 0
    request.with_header(correlation_id=9, client_id="bg")
    frame = bytes(request.encode(header=True, framed=True))
    assert frame[:17] == struct.pack(">ihhih2sb", len(frame) - 4, api_key, 0, 9, 2, b"bg", 0)
    assert api_key == request.API_KEY


def test_another_key_leaves_the_first_one_alone() -> None:
    first = replica_log_info(LogInfoSchema.KIP)
    replica_log_info(LogInfoSchema.KIP, 1020)
    assert first.request_class.API_KEY == first.response_class.API_KEY == DEFAULT_API_KEY
    assert replica_log_info(LogInfoSchema.KIP) is first


def test_an_answer_is_read_after_its_header() -> None:
    response_class = replica_log_info(LogInfoSchema.KIP, 94).response_class
    read = response_class.decode(
        bytes.fromhex("00000009 00") + sample(LogInfoSchema.KIP), version=0, header=True
    )
    assert read.header.correlation_id == 9
    assert [one.partition for one in read.topic_partition_log_info_list[0].partition_log_info] == [
        0,
        7,
    ]


@given(st.sampled_from(LogInfoSchema), QUESTIONS, INT32)
def test_a_request_comes_back_as_it_was_sent(
    form: LogInfoSchema, partitions: dict[UUID, list[int]], broker_id: int
) -> None:
    messages = replica_log_info(form)
    body = bytes(messages.request(partitions, broker_id).encode(version=0))
    read = messages.request_class.decode(body, version=0)
    assert {topic.topic_id: topic.partitions for topic in read.topic_partitions} == partitions
    if form is LogInfoSchema.KIP966:
        assert read.broker_id == broker_id


@pytest.mark.parametrize("form", LogInfoSchema)
def test_an_answer_cut_short_anywhere_is_malformed(form: LogInfoSchema) -> None:
    body, response_class = sample(form), replica_log_info(form).response_class
    for size in range(len(body)):
        with pytest.raises(MalformedMessage):
            response_class.decode(body[:size], version=0)


@given(st.sampled_from(LogInfoSchema), st.binary(max_size=200))
def test_no_bytes_raise_anything_else(form: LogInfoSchema, body: bytes) -> None:
    messages = replica_log_info(form)
    for message_class in (messages.request_class, messages.response_class):
        try:
            message_class.decode(body, version=0, header=True)
        except MalformedMessage:
            continue


@given(st.sampled_from(LogInfoSchema), st.integers(2**28, 2**32 - 1))
def test_an_absurd_count_is_malformed_at_once(form: LogInfoSchema, count: int) -> None:
    from kafka.protocol.schemas.fields.codecs.types import UnsignedVarInt32

    start = len(bytes(replica_log_info(form).response_class(**head(form)).encode(version=0))) - 2
    body = sample(form)[:start] + bytes(UnsignedVarInt32.encode(count)) + sample(form)[start + 1 :]
    with pytest.raises(MalformedMessage):
        replica_log_info(form).response_class.decode(body, version=0)
