"""Finding KIP-1275's own requests, and reading log ends by them: never on a guess."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest

from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.replicas.list_offsets import ListedOffset, OffsetError
from breakglass.services.kafka.replicas.replica_reader import read_log_infos
from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectLeadersRequest,
    LogInfoSchema,
    replica_log_info,
)
from breakglass.services.kafka.wire.native_rpc import NativeRpc, find_native_rpc, log_info_on
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicPartition
from tests.kit.deadlines import ample
from tests.kit.fake_broker import FakeBroker, HangUp

TOPIC = UUID("11111111-2222-3333-4444-555555555555")
DENIED, STORAGE_ERROR = 31, 56


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


@pytest.fixture
def sender(broker: FakeBroker) -> Iterator[Sender]:
    servers = (broker.endpoint,)
    security = ClientSecurity(ConnectionSettings(servers))
    addresses = {1: broker.endpoint}
    with closing(
        Sender(servers, security, frozenset({93, 120}), broker_addresses=addresses)
    ) as sender:
        yield sender


def offer(
    broker: FakeBroker,
    form: LogInfoSchema,
    key: int = 93,
    *,
    codes: dict[int, int] | None = None,
    at_most: int = 1_000,
    left_out: frozenset[int] = frozenset(),
) -> None:
    """Serve log infos in *form*: partition n ends at 100 + n, in leader epoch 7."""
    messages = replica_log_info(form, key)

    def answer(request: Any) -> Any:
        room = at_most
        topics = []
        for topic in request.topic_partitions:
            served = [
                partition for partition in topic.partitions[:room] if partition not in left_out
            ]
            room -= len(topic.partitions[:room])
            topics.append(_topic(messages, topic.topic_id, served, codes or {}))
        return messages.response_class(topic_partition_log_info_list=topics)

    broker.serve(messages.request_class, answer)


def _topic(messages: Any, topic_id: UUID, numbers: list[int], codes: dict[int, int]) -> Any:
    topic_class = messages.response_class.TopicPartitionLogInfo
    epochs = (
        {"partition_leader_epoch": 7}
        if messages.form is LogInfoSchema.KIP
        else {"last_written_leader_epoch": 3, "current_leader_epoch": 7}
    )
    infos = [
        topic_class.PartitionLogInfo(
            partition=one, log_end_offset=100 + one, error_code=codes.get(one, 0), **epochs
        )
        for one in numbers
    ]
    return topic_class(topic_id=topic_id, partition_log_info=infos)


def elects(broker: FakeBroker, version: int) -> None:
    broker.serve(ElectLeadersRequest, lambda _: None, (0, version))


class TestFinding:
    def find(self, sender: Sender, choice: str = "auto") -> NativeRpc:
        return find_native_rpc(sender, choice, TOPIC, 0, ample())

    @pytest.mark.parametrize("form", [None, LogInfoSchema.KIP], ids=["without the key", "with it"])
    def test_a_stock_cluster_is_asked_nothing(
        self, broker: FakeBroker, sender: Sender, form: LogInfoSchema | None
    ) -> None:
        """The key alone proves nothing: Kafka's trunk gave 93 to another request."""
        elects(broker, 2)
        if form:
            offer(broker, form)
        found = self.find(sender)
        assert (found.log_info, found.designates) == (None, False)
        assert broker.received == []

    def test_another_request_is_not_taken_for_it(self, broker: FakeBroker, sender: Sender) -> None:
        def hang_up(_: Any) -> Any:
            raise HangUp

        elects(broker, 3)
        broker.serve(replica_log_info(LogInfoSchema.KIP).request_class, hang_up)
        found = self.find(sender)
        assert (found.log_info, found.designates) == (None, True)

    @pytest.mark.parametrize("form", LogInfoSchema)
    def test_r22_where_it_is_not_allowed_the_stock_requests_are_used_and_the_acl_is_named(
        self, broker: FakeBroker, sender: Sender, form: LogInfoSchema
    ) -> None:
        elects(broker, 3)
        offer(broker, form, codes={0: DENIED})
        found = self.find(sender)
        assert (found.log_info, found.designates) == (None, False)
        assert "CLUSTER_ACTION on CLUSTER" in found.summary


class TestEachBroker:
    """The one that was asked first offers all."""

    NATIVE = NativeRpc(replica_log_info(LogInfoSchema.KIP), designates=True, reason="answers")

    @pytest.mark.parametrize("elections", [2, 3])
    def test_r15_a_broker_that_lacks_either_request_is_asked_by_stock_ones(
        self, broker: FakeBroker, sender: Sender, elections: int
    ) -> None:
        elects(broker, elections)
        if elections == 2:
            offer(broker, LogInfoSchema.KIP)
        assert log_info_on(sender, ANY_BROKER, self.NATIVE, ample()) is None


class TestReading:
    def read(
        self, sender: Sender, wanted: dict[TopicPartition, UUID]
    ) -> dict[TopicPartition, ListedOffset | OffsetError]:
        return read_log_infos(sender, 1, replica_log_info(LogInfoSchema.KIP), wanted, ample())

    def asked(self, broker: FakeBroker) -> list[int]:
        return [
            sum(len(topic.partitions) for topic in received.message.topic_partitions)
            for received in broker.received
        ]

    @pytest.mark.parametrize(
        ("count", "room", "asked"),
        [(10, 4, [10, 6, 2]), (2_300, 1_000, [1_000, 1_000, 300])],
        ids=["what an answer has no room for", "what is more than a thousand"],
    )
    def test_the_rest_is_asked_again(
        self, broker: FakeBroker, sender: Sender, count: int, room: int, asked: list[int]
    ) -> None:
        offer(broker, LogInfoSchema.KIP, at_most=room)
        many = {TopicPartition("a", number): TOPIC for number in range(count)}
        assert self.read(sender, many) == {
            one: ListedOffset(100 + one.partition, -1, 7) for one in many
        }
        assert self.asked(broker) == asked

    def test_what_is_always_left_out_is_an_error(self, broker: FakeBroker, sender: Sender) -> None:
        offer(broker, LogInfoSchema.KIP, left_out=frozenset({1}))
        found = self.read(sender, {TopicPartition("a", number): TOPIC for number in range(3)})
        assert isinstance(found[TopicPartition("a", 1)], OffsetError)
        assert found[TopicPartition("a", 2)] == ListedOffset(102, -1, 7)

    @pytest.mark.parametrize("code", [DENIED, STORAGE_ERROR, 3])
    def test_r22_an_error_is_of_its_one(
        self, broker: FakeBroker, sender: Sender, code: int
    ) -> None:
        offer(broker, LogInfoSchema.KIP, codes={0: code})
        found = self.read(sender, {TopicPartition("a", number): TOPIC for number in range(2)})
        refused = found[TopicPartition("a", 0)]
        assert isinstance(refused, OffsetError)
        assert refused.code == code
        assert ("CLUSTER_ACTION on CLUSTER" in refused.reason) is (code == DENIED)
        assert found[TopicPartition("a", 1)] == ListedOffset(101, -1, 7)
