"""The small clients that write: commits of groups, settings, markers of checkpoints and ends."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from breakglass.services.errors import UsageError
from breakglass.services.kafka.admin_client import (
    COMMIT_VERSION,
    TOPICS_A_REQUEST,
    GroupClient,
    SettingClient,
)
from breakglass.services.kafka.cluster.settings import MIN_ISR, UNCLEAN_ELECTION
from breakglass.services.kafka.election_client import LEFT_OUT
from breakglass.services.kafka.marker_client import (
    EndMarker,
    MarkerClient,
    Small,
    TransactionEndClient,
)
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.messages.other import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from breakglass.services.lab.rewriting import refusal
from breakglass.services.model import TopicPartition
from tests.kit.deadlines import ample
from tests.kit.fake_cluster import FakeCluster

ORDERS = TopicPartition("orders", 0)


class TestGroupClient:
    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            (0, ""),
            (30, "READ on group billing"),
            (29, "READ on topic orders"),
            (25, "UNKNOWN_MEMBER_ID"),
        ],
    )
    def test_r22_a_refusal_says_why(self, cluster: FakeCluster, code: int, reason: str) -> None:
        cluster.brokers[1].serve(
            OffsetCommitRequest,
            lambda request: refusal(request, OffsetCommitResponse, code),
            (2, COMMIT_VERSION),
        )
        with closing(cluster.sender(api_keys.READ | {OffsetCommitRequest.API_KEY})) as sender:
            found = GroupClient(sender).commit(1, "billing", {ORDERS: 7}, ample())[ORDERS]
        assert found.endswith(reason)
        assert bool(found) is bool(code)


class TestSettingClient:
    """Two settings of named topics, and nothing else."""

    @pytest.fixture
    def client(self, cluster: FakeCluster) -> Iterator[SettingClient]:
        with closing(cluster.sender(api_keys.READ | api_keys.SETTINGS)) as sender:
            yield SettingClient(sender)

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("retention.ms", {"orders": "1"}),
            (MIN_ISR, {}),
            (MIN_ISR, {str(number): "1" for number in range(TOPICS_A_REQUEST + 1)}),
        ],
        ids=["another setting", "no topic", "too many topics"],
    )
    def test_anything_else_is_refused_unsent(
        self, cluster: FakeCluster, client: SettingClient, name: str, values: dict[str, str | None]
    ) -> None:
        with pytest.raises(UsageError):
            client.write(name, values, ample())
        assert cluster.brokers[1].requests(IncrementalAlterConfigsRequest) == []

    def test_each_topic_has_its_answer_and_what_was_left_out_is_unknown(
        self, cluster: FakeCluster, client: SettingClient
    ) -> None:
        result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
        codes = {"done": 0, "denied": 29, "late": 7}
        answers = [
            result(error_code=code, error_message=None, resource_type=2, resource_name=topic)
            for topic, code in codes.items()
        ]
        answer = IncrementalAlterConfigsResponse(responses=answers)
        cluster.brokers[1].serve(IncrementalAlterConfigsRequest, lambda _: answer)
        wanted = {"done": None, "denied": "false", "late": "false", "forgotten": "false"}
        replies = client.write(UNCLEAN_ELECTION, wanted, ample())
        assert replies["done"].accepted
        assert "ALTER_CONFIGS on topic denied" in str(replies["denied"])
        assert (replies["denied"].unsettled, replies["late"].unsettled) == (False, True)
        assert replies["forgotten"] == LEFT_OUT
        (sent,) = cluster.brokers[1].requests(IncrementalAlterConfigsRequest)
        changes = {resource.resource_name: resource.configs[0] for resource in sent.resources}
        assert (changes["done"].config_operation, changes["done"].value) == (1, None)
        assert (changes["late"].config_operation, changes["late"].value) == (0, "false")


class TestMarkerClient:
    """Markers are written to all leaders at once."""

    HUNG, LED = ORDERS, TopicPartition("orders", 1)
    END = 40

    def produced(self, request: Any, error_code: int = 0) -> Any:
        topic_class = ProduceResponse.TopicProduceResponse
        told = topic_class.PartitionProduceResponse
        fields = {"error_code": error_code, "base_offset": self.END, "log_append_time_ms": -1}
        responses = []
        for topic in request.topic_data:
            partitions = [told(index=one.index, **fields) for one in topic.partition_data]
            responses.append(
                topic_class(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
                )
            )
        return ProduceResponse(responses=responses, throttle_time_ms=0)

    @pytest.fixture
    def cluster(self) -> Iterator[FakeCluster]:
        """b1 leads orders-0 and is hung until b2, which leads orders-1, is asked."""
        with FakeCluster(2) as cluster:
            for partition, leader in ((self.HUNG, 1), (self.LED, 2)):
                state = cluster.story.offline(partition, (1, 2))
                cluster.story.states[partition] = replace(state, leader=leader)
            other = cluster.brokers[2].serve(ProduceRequest, self.produced)
            cluster.brokers[1].hang(until=lambda: other.requests(ProduceRequest))
            yield cluster

    @pytest.fixture
    def markers(self, cluster: FakeCluster) -> Iterator[MarkerClient]:
        with closing(cluster.sender(api_keys.CHECKPOINTS, 2)) as sender:
            yield MarkerClient(sender)

    def test_a_hung_leader_costs_its_own(self, cluster: FakeCluster, markers: MarkerClient) -> None:
        states = [cluster.story.states[partition] for partition in (self.HUNG, self.LED)]
        assert markers.write(states, Small(b"marker", b""), ample()) == {self.LED: self.END}


class TestTransactionEndClient:
    BILLING = TopicPartition("billing", 3)

    def answering(self, cluster: FakeCluster, code: int, *, partition: int = 3) -> None:
        marker = WriteTxnMarkersResponse.WritableTxnMarkerResult
        topic = marker.WritableTxnMarkerTopicResult
        told = topic.WritableTxnMarkerPartitionResult(partition_index=partition, error_code=code)
        topics = [topic(name="billing", partitions=[told])]
        answer = WriteTxnMarkersResponse(markers=[marker(producer_id=4_000, topics=topics)])
        cluster.brokers[1].serve(WriteTxnMarkersRequest, lambda _: answer, (1, 1))

    def end(self, cluster: FakeCluster) -> str:
        marker = EndMarker(4_000, 7, 5, commit=True)
        with closing(cluster.sender(api_keys.READ | api_keys.TRANSACTION_ENDS)) as sender:
            return TransactionEndClient(sender).end(1, self.BILLING, marker, ample())

    def test_r18_the_marker_is_sent_as_its_coordinator_wrote_it(self, cluster: FakeCluster) -> None:
        self.answering(cluster, 0)
        assert self.end(cluster) == ""
        (asked,) = cluster.brokers[1].requests(WriteTxnMarkersRequest)
        (marker,) = asked.markers
        assert (marker.producer_id, marker.producer_epoch) == (4_000, 7)
        assert (marker.coordinator_epoch, marker.transaction_result) == (5, True)
        (topic,) = marker.topics
        assert (topic.name, list(topic.partition_indexes)) == ("billing", [3])

    @pytest.mark.parametrize(
        ("code", "partition", "reason"),
        [
            (31, 3, "ALTER on CLUSTER"),
            (19, 3, "min.insync.replicas"),
            (52, 3, "newer coordinator"),
            (-1, 3, "log"),
            (3, 3, "UNKNOWN_TOPIC_OR_PARTITION"),
            (0, 4, "left out"),
        ],
    )
    def test_r18_what_is_refused_or_left_out_has_its_reason(
        self, cluster: FakeCluster, code: int, partition: int, reason: str
    ) -> None:
        self.answering(cluster, code, partition=partition)
        assert reason in self.end(cluster)
