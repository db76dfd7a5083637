"""ElectLeaders v0-3 and GetReplicaLogInfo v0 on the wire, and what is refused to go there."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs.types import UnsignedVarInt32

from breakglass.services.errors import MalformedMessage, UnsupportedByCluster
from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectionType,
    ElectLeadersRequest,
    LogInfoSchema,
    designated_election,
    replica_log_info,
)
from breakglass.services.model import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_3 = TopicPartition("orders", 3)
LEDGER_1 = TopicPartition("ledger", 1)
TOPIC = UUID("00112233-4455-6677-8899-aabbccddeeff")
TOPIC_HEX = TOPIC.hex

PARTITIONS = st.builds(TopicPartition, st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1))
LEADERS = st.dictionaries(PARTITIONS, st.integers(0, 2**31 - 1), min_size=1, max_size=20)


def election(
    *partitions: int, type_: int = ElectionType.UNCLEAN, designees: list[int] | None = None
) -> ElectLeadersRequest:
    """An election of partitions of `orders`."""
    topic = ElectLeadersRequest.TopicPartitions(
        topic="orders", partitions=list(partitions), designated_leaders=designees
    )
    return ElectLeadersRequest(election_type=type_, topic_partitions=[topic], timeout_ms=1000)


class TestElectLeaders:
    def test_version_3_carries_the_designated_leaders_beside_the_partitions(self) -> None:
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

    @pytest.mark.parametrize(
        ("version", "sent"),
        [
            (1, "01 00000001 0006 6f7264657273 00000001 00000000 000003e8"),
            (2, "01 02 07 6f7264657273 02 00000000 00 000003e8 00"),
            (3, "01 02 07 6f7264657273 02 00000000 00 00 000003e8 00"),
        ],
    )
    def test_an_election_without_designees_is_kafkas(self, version: int, sent: str) -> None:
        assert election(0).encode(version=version) == bytes.fromhex(sent)

    @given(LEADERS, st.integers(-(2**31), 2**31 - 1), st.data())
    def test_a_designated_election_comes_back_as_it_was_sent_or_cut_short_is_malformed(
        self, leaders: dict[TopicPartition, int], timeout_ms: int, data: st.DataObject
    ) -> None:
        whole = designated_election(leaders, timeout_ms).encode(version=3)
        read = ElectLeadersRequest.decode(whole, version=3)
        assert read.timeout_ms == timeout_ms
        assert leaders == {
            TopicPartition(topic.topic, partition): designee
            for topic in read.topic_partitions
            for partition, designee in zip(topic.partitions, topic.designated_leaders, strict=True)
        }
        cut = data.draw(st.integers(0, len(whole) - 1))
        for wrong in (whole[:cut], whole + b"\0"):
            with pytest.raises(MalformedMessage):
                ElectLeadersRequest.decode(wrong, version=3)

    @pytest.mark.parametrize(
        "topics",
        [None, [], [ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[])]],
        ids=["null", "no topic", "a topic without partitions"],
    )
    def test_r23_an_election_of_all_cannot_be_encoded(self, topics: list[Any] | None) -> None:
        request = ElectLeadersRequest(election_type=1, topic_partitions=topics, timeout_ms=1000)
        with pytest.raises(ValueError, match="partition"):
            request.encode(version=2)

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_a_designated_election_never_becomes_an_unclean_one(self, version: int) -> None:
        with pytest.raises(UnsupportedByCluster):
            designated_election({ORDERS_0: 2}, 1000).encode(version=version)

    @pytest.mark.parametrize("designees", [None, [], [2], [2, 1, 3], [2, -1]])
    def test_each_partition_needs_its_designated_leader(self, designees: list[int] | None) -> None:
        request = election(0, 3, type_=ElectionType.DESIGNATED, designees=designees)
        with pytest.raises(ValueError, match="designated leader"):
            request.encode(version=3)


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
    """An answer of *form* about partitions 0 and 7 of TOPIC."""
    response_class = replica_log_info(form).response_class
    topic_class = response_class.TopicPartitionLogInfo
    entries = [topic_class.PartitionLogInfo(**entry(form, number)) for number in (0, 7)]
    topic = topic_class(topic_id=TOPIC, partition_log_info=entries)
    answer = response_class(topic_partition_log_info_list=[topic], **head(form))
    return bytes(answer.encode(version=0))


ASKED = TOPIC_HEX + "03 00000000 00000007 00 00"
REQUESTS = {
    LogInfoSchema.KIP: "02" + ASKED,
    LogInfoSchema.MERGED: "02" + ASKED,
    # KIP-966 begins with the broker that asks.
    LogInfoSchema.KIP966: "00000004 02" + ASKED,
}
BROKER_EPOCH = "000000000000002a"
ANSWERS = {
    # Throttled for 5 ms, the broker's epoch, more data; of each partition the leader epoch.
    LogInfoSchema.KIP: "00000005" + BROKER_EPOCH + "01 02" + TOPIC_HEX + "03"
    "00000000 00000003 0000000000000096 0000 00"
    "00000007 00000003 0000000000000096 0000 00 00 00",
    # The written epoch comes first.
    LogInfoSchema.MERGED: "00000005" + BROKER_EPOCH + "01 02" + TOPIC_HEX + "03"
    "00000000 00000001 00000003 0000000000000096 0000 00"
    "00000007 00000001 00000003 0000000000000096 0000 00 00 00",
    # Messages, and no throttle.
    LogInfoSchema.KIP966: BROKER_EPOCH + "02" + TOPIC_HEX + "03"
    "00000000 00000001 00000003 0000000000000096 0000 00 00"
    "00000007 00000001 00000003 0000000000000096 0000 00 00 00 00",
}


@pytest.mark.parametrize("form", LogInfoSchema)
class TestReplicaLogInfo:
    def test_the_bytes_of_its_request_and_answer(self, form: LogInfoSchema) -> None:
        request = replica_log_info(form).request({TOPIC: [0, 7]}, broker_id=4)
        assert bytes(request.encode(version=0)) == bytes.fromhex(REQUESTS[form])
        assert sample(form) == bytes.fromhex(ANSWERS[form])

    def test_an_answer_is_read_whole_and_in_its_own_form_only(self, form: LogInfoSchema) -> None:
        body, response_class = sample(form), replica_log_info(form).response_class
        assert response_class.decode(body, version=0)
        start = len(bytes(response_class(**head(form)).encode(version=0))) - 2
        absurd = bytes(UnsignedVarInt32.encode(2**32 - 1))
        wrong = [body[:size] for size in range(len(body))]
        for other in (*wrong, body[:start] + absurd + body[start + 1 :]):
            with pytest.raises(MalformedMessage):
                response_class.decode(other, version=0)
        for candidate in set(LogInfoSchema) - {form}:
            with pytest.raises(MalformedMessage):
                replica_log_info(candidate).response_class.decode(body, version=0)
