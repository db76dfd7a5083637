"""The cluster as a read-only session sees it: every page, and Unknown for what nobody tells."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol import admin
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from breakglass.services import patience
from breakglass.services.connection.endpoint import KnownAddresses
from breakglass.services.connection.security import confluent_config
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import ConnectFailed, MalformedMessage, NotAuthorized, WrongCluster
from breakglass.services.kafka import read_client
from breakglass.services.kafka.cluster.log_dirs import NO_LOG
from breakglass.services.kafka.read_client import ReadClient, SnapshotMemory
from breakglass.services.kafka.wire.answers import REQUEST_TIMED_OUT, denied
from breakglass.services.model import (
    Denied,
    LogDir,
    Silent,
    TopicPartition,
    TopicSettings,
    Unknown,
    known,
)
from breakglass.services.session import ReadAccess
from breakglass.services.snapshot import ClusterSnapshot
from tests.kit.deadlines import HOUR, ample
from tests.kit.fake_broker import FakeBroker
from tests.kit.fake_cluster import FakeCluster, partitions_of

DENIED = 29
CLUSTER_DENIED = 31
ORDERS = TopicPartition("orders", 0)
GAVE_UP = admin.DescribeQuorumResponse(error_code=REQUEST_TIMED_OUT, topics=[], nodes=[])


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Three brokers and `orders-0`, which is offline."""
    with FakeCluster(3) as cluster:
        cluster.story.offline(ORDERS, (3, 1, 2), elr=(3,), last=(3,))
        yield cluster


@pytest.fixture
def cut_off(cluster: FakeCluster) -> FakeBroker:
    """The broker that answers first, and that the controllers do not answer."""
    broker = cluster.brokers[1]
    broker.serve(admin.DescribeQuorumRequest, lambda _: GAVE_UP)
    return broker


def always(answer: Any) -> Any:
    return lambda _: answer


def serve_everywhere(cluster: FakeCluster, request_class: Any, respond: Any) -> None:
    for broker in cluster.brokers.values():
        broker.serve(request_class, respond)


class TestPartitions:
    def test_r22_a_named_topic_that_may_not_be_described_is_an_error(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        topic = admin.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
        denied = topic(error_code=DENIED, name="orders", partitions=[])
        answer = admin.DescribeTopicPartitionsResponse(topics=[denied])
        cluster.brokers[1].serve(admin.DescribeTopicPartitionsRequest, lambda _: answer)
        with pytest.raises(NotAuthorized) as refused:
            client.partitions(["orders"], ample())
        assert refused.value.needs == "DESCRIBE on topic orders"

    def test_without_the_api_it_is_metadata(self, cluster: FakeCluster, client: ReadClient) -> None:
        topic = MetadataResponse.MetadataResponseTopic
        partition = topic.MetadataResponsePartition(
            partition_index=0, leader_id=-1, leader_epoch=5, replica_nodes=[3, 1], isr_nodes=[3]
        )
        answer = MetadataResponse(topics=[topic(name="orders", partitions=[partition])])
        broker = cluster.brokers[1]
        broker.serve(MetadataRequest, lambda _: answer, (12, 12))
        broker.serve(admin.DescribeTopicPartitionsRequest, lambda _: None, (9, 9))
        (state,) = client.partitions(["orders"], ample())
        assert (state.offline, state.assignment, state.isr) == (True, (3, 1), (3,))
        assert isinstance(state.elr, Unknown)
        (asked,) = broker.requests(MetadataRequest)
        assert asked.allow_auto_topic_creation is False


class TestSnapshot:
    def test_r20_a_controller_that_does_not_answer_makes_unknown_what_it_alone_tells(
        self, cluster: FakeCluster, client: ReadClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rest is there, though no controller answers before the test ends."""
        monkeypatch.setattr(patience, "CONTROLLER", 0.1)
        monkeypatch.setattr(patience, "ROLL_CALL", 0.1)
        serve_everywhere(cluster, admin.DescribeQuorumRequest, lambda _: None)
        serve_everywhere(cluster, admin.ListPartitionReassignmentsRequest, lambda _: None)
        snapshot = client.snapshot(ample())
        assert isinstance(snapshot.quorum, Silent)
        assert isinstance(snapshot.offline[0].reassignment, Unknown)

    @pytest.mark.parametrize("whole", [True, False], ids=["at the top", "of the partition"])
    def test_r22_what_may_not_be_read_is_unknown_with_the_acl(
        self, cluster: FakeCluster, client: ReadClient, whole: bool
    ) -> None:
        topic, result = admin.DescribeQuorumResponse.TopicData, admin.DescribeConfigsResponse
        refused = topic.PartitionData(partition_index=0, error_code=0 if whole else CLUSTER_DENIED)
        topics = [topic(topic_name="__cluster_metadata", partitions=[refused])]
        config = result.DescribeConfigsResult(
            error_code=DENIED, resource_type=2, resource_name="orders", configs=[]
        )
        top = CLUSTER_DENIED if whole else 0
        for request, answer in (
            (
                admin.DescribeQuorumRequest,
                admin.DescribeQuorumResponse(error_code=top, topics=topics),
            ),
            (
                admin.ListPartitionReassignmentsRequest,
                admin.ListPartitionReassignmentsResponse(error_code=CLUSTER_DENIED, topics=[]),
            ),
            (admin.DescribeConfigsRequest, result(results=[config])),
        ):
            cluster.brokers[1].serve(request, always(answer))
        snapshot, missing = client.snapshot(ample()), denied("DESCRIBE_CONFIGS on topic orders")
        assert snapshot.quorum == denied("DESCRIBE on CLUSTER")
        assert isinstance(snapshot.offline[0].reassignment, Denied)
        assert snapshot.offline[0].reassignment.needs == "DESCRIBE on CLUSTER"
        assert snapshot.settings == {"orders": TopicSettings(missing, missing, missing, missing)}

    def test_r20_a_broker_that_the_controllers_do_not_answer_speaks_for_no_other(
        self, cut_off: FakeBroker, client: ReadClient
    ) -> None:
        assert known(client.snapshot(ample()).quorum)
        asked = len(cut_off.requests(admin.DescribeTopicPartitionsRequest))
        assert asked == 1
        assert client.partitions(["orders"], ample())
        assert len(cut_off.requests(admin.DescribeTopicPartitionsRequest)) == asked

    def test_r20_a_change_goes_to_a_broker_that_the_controllers_answer(
        self, cut_off: FakeBroker, client: ReadClient
    ) -> None:
        described = client.describe_for_changes(ample())
        assert described.cluster_id == client.snapshot(ample()).cluster_id
        assert not cut_off.requests(admin.DescribeTopicPartitionsRequest)

    def test_r20_brokers_are_not_asked_each_time_while_no_controller_answers(
        self, cluster: FakeCluster, client: ReadClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(read_client, "SILENT_SECONDS", HOUR)
        serve_everywhere(cluster, admin.DescribeQuorumRequest, lambda _: GAVE_UP)
        for _ in range(3):
            assert isinstance(client.snapshot(ample()).quorum, Silent)
        assert len(cluster.brokers[2].requests(admin.DescribeQuorumRequest)) == 1

    def test_an_old_cluster_leaves_fenced_brokers_out_and_that_is_taken_for_fenced(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[1].serve(
            admin.DescribeClusterRequest, cluster.apis(1)[admin.DescribeClusterRequest], (0, 1)
        )
        del cluster.story.addresses[3]
        description = client.describe(ample())
        assert not description.names_fenced
        assert (description.fenced(1), description.fenced(3)) == (False, True)
        assert description.unregistered((1, 3)) == ()


def described(path: str, held: Mapping[TopicPartition, tuple[int, bool]]) -> Any:
    """One directory; of each replica its offset lag, and whether it is a copy."""
    result = admin.DescribeLogDirsResponse.DescribeLogDirsResult
    topic = result.DescribeLogDirsTopic
    topics = []
    for one, (lag, future) in held.items():
        told = topic.DescribeLogDirsPartition(
            partition_index=one.partition, partition_size=9, offset_lag=lag, is_future_key=future
        )
        topics.append(topic(name=one.topic, partitions=[told]))
    return result(error_code=0, log_dir=path, topics=topics)


class TestLogDirs:
    def test_r21_a_copy_stands_beside_its_log_or_alone_and_minus_one_means_both(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        """-1 is INVALID_OFFSET_LAG where there is no log, and one ahead where there is."""
        alone = TopicPartition("orders", 1)
        logs, copies = (0, False), (-1, True)
        answer = admin.DescribeLogDirsResponse(
            error_code=0,
            results=[
                described("/one", {ORDERS: logs}),
                described("/two", {ORDERS: copies, alone: copies}),
            ],
        )
        cluster.brokers[1].serve(admin.DescribeLogDirsRequest, lambda _: answer)
        held = client.log_dirs(1, [ORDERS, alone], ample())
        copy = LogDir("/two", online=True, size=9, future=True, behind=-1)
        assert held[ORDERS] == LogDir("/one", online=True, size=9, copy=copy)
        assert held[alone] == LogDir("/two", online=True, size=9, future=True, behind=NO_LOG)

    @pytest.mark.parametrize("code", [0, CLUSTER_DENIED])
    def test_r22_no_answer_at_all_is_a_missing_acl_in_old_brokers_and_new(
        self, cluster: FakeCluster, client: ReadClient, code: int
    ) -> None:
        answer = admin.DescribeLogDirsResponse(error_code=code, results=[])
        cluster.brokers[1].serve(admin.DescribeLogDirsRequest, lambda _: answer)
        with pytest.raises(NotAuthorized) as refused:
            client.log_dirs(1, [ORDERS], ample())
        assert refused.value.needs == "DESCRIBE on CLUSTER"


class TestOneAddress:
    """A session that was given the address of b1 alone."""

    @pytest.fixture
    def access(self, cluster: FakeCluster, tmp_path: Path) -> ReadAccess:
        given = (cluster.brokers[1].endpoint,)
        return ReadAccess(ConnectionSettings(given), known=KnownAddresses(given, tmp_path))

    def test_r40_every_client_goes_on_when_that_broker_dies_and_later_sessions_as_well(
        self, cluster: FakeCluster, access: ReadAccess, tmp_path: Path
    ) -> None:
        given = access.settings.bootstrap_servers
        with access.reading() as client:
            client.describe(ample())
            cluster.brokers[1].stop()
            assert client.snapshot(ample()).offline
        with access.reading() as another:
            assert another.snapshot(ample()).offline
        later = ReadAccess(ConnectionSettings(given), known=KnownAddresses(given, tmp_path))
        with later.reading() as client:
            assert client.snapshot(ample()).offline

    def test_r40_a_known_address_where_another_cluster_answers_is_not_believed(
        self, cluster: FakeCluster, access: ReadAccess
    ) -> None:
        with FakeCluster(1) as other, access.reading() as client:
            other.story.cluster_id = "another"
            found = client.describe(ample())
            assert access.known is not None
            third = replace(found.brokers[2], port=other.brokers[1].endpoint.port)
            access.known.learn(found.cluster_id, [found.brokers[0], third])
            for broker in cluster.brokers.values():
                broker.stop()
            with pytest.raises(ConnectFailed):
                client.describe(ample())
            assert other.brokers[1].requests(admin.DescribeClusterRequest)

    def test_r40_librdkafka_is_given_the_brokers_of_the_newest_metadata(
        self, cluster: FakeCluster, access: ReadAccess
    ) -> None:
        with access.reading() as client:
            client.describe(ample())
        servers = confluent_config(access.settings_now)["bootstrap.servers"].split(",")
        assert servers == [str(broker.endpoint) for broker in cluster.brokers.values()]


def _another(partition: Any, **values: Any) -> Any:
    made = copy(partition)
    for name, value in values.items():
        setattr(made, name, value)
    return made


class TestImpossibleAnswers:
    @pytest.mark.parametrize(
        "values",
        [
            {},
            {"partition_index": -7},
            {"partition_index": 1, "replica_nodes": [1, -3]},
            {"partition_index": 1, "leader_epoch": -2},
        ],
        ids=str,
    )
    def test_s22_metadata_that_cannot_be_is_its_brokers_fault(
        self, cluster: FakeCluster, client: ReadClient, values: dict[str, Any]
    ) -> None:
        answer = cluster.apis(1)[admin.DescribeTopicPartitionsRequest]

        def added(request: Any) -> Any:
            told = answer(request)
            told.topics[0].partitions.append(_another(told.topics[0].partitions[0], **values))
            return told

        serve_everywhere(cluster, admin.DescribeTopicPartitionsRequest, added)
        with pytest.raises(MalformedMessage, match=str(cluster.brokers[1].endpoint)):
            client.snapshot(ample())

    @pytest.mark.parametrize("name", ["\x1b[2J", "..", "orders/..", "n" * 250])
    def test_s22_a_topic_that_kafka_cannot_have_is_its_brokers_fault(
        self, cluster: FakeCluster, client: ReadClient, name: str
    ) -> None:
        answer = cluster.apis(1)[admin.DescribeTopicPartitionsRequest]

        def renamed(request: Any) -> Any:
            told = answer(request)
            told.topics[0].name = name
            return told

        serve_everywhere(cluster, admin.DescribeTopicPartitionsRequest, renamed)
        with pytest.raises(MalformedMessage, match=str(cluster.brokers[1].endpoint)):
            client.snapshot(ample())

    @pytest.mark.parametrize("name", ["", "..", "\x1b[2J", "two words", "n" * 1_000_000])
    def test_s22_a_cluster_id_that_cannot_be_is_its_brokers_fault(
        self, cluster: FakeCluster, client: ReadClient, name: str
    ) -> None:
        cluster.story.cluster_id = name
        with pytest.raises(MalformedMessage, match=str(cluster.brokers[1].endpoint)):
            client.describe(ample())

    def test_s22_pages_that_lead_nowhere_end(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cursor = admin.DescribeTopicPartitionsResponse.Cursor(topic_name="a", partition_index=0)
        endless = admin.DescribeTopicPartitionsResponse(topics=[], next_cursor=cursor)
        serve_everywhere(cluster, admin.DescribeTopicPartitionsRequest, always(endless))
        with pytest.raises(MalformedMessage):
            client.partitions([], ample())

    @pytest.mark.parametrize("values", [{}, {"broker_id": -7}, {"broker_id": 9, "port": 70_000}])
    def test_s22_brokers_that_cannot_be_are_not_listed(
        self, cluster: FakeCluster, client: ReadClient, values: dict[str, int]
    ) -> None:
        answer = cluster.apis(1)[admin.DescribeClusterRequest]

        def added(request: Any) -> Any:
            told = answer(request)
            told.brokers.append(_another(told.brokers[0], **values))
            return told

        serve_everywhere(cluster, admin.DescribeClusterRequest, added)
        with pytest.raises(MalformedMessage):
            client.describe(ample())

    def test_s23_a_cluster_id_that_changes_stops_everything(self, cluster: FakeCluster) -> None:
        access = ReadAccess(ConnectionSettings((cluster.brokers[1].endpoint,)))
        with access.reading() as client, access.reading() as another:
            client.snapshot(ample())
            cluster.story.cluster_id = "another"
            for asked in (client.describe, client.snapshot, another.describe):
                with pytest.raises(WrongCluster):
                    asked(ample())


PAGE = 5
PARTITIONS = partitions_of("orders", 3 * PAGE)


@pytest.fixture
def paged() -> Iterator[FakeCluster]:
    """Three pages of offline partitions."""
    with FakeCluster(3) as paged:
        for partition in PARTITIONS:
            paged.story.offline(partition)
        paged.story.page = PAGE
        yield paged


@pytest.fixture
def paged_client(paged: FakeCluster) -> Iterator[ReadClient]:
    with closing(paged.client()) as client:
        yield client


@pytest.fixture
def memory() -> SnapshotMemory:
    return SnapshotMemory()


def taken(client: ReadClient, memory: SnapshotMemory) -> ClusterSnapshot:
    return client.snapshot(ample(), memory=memory)


def test_a_partition_that_comes_back_or_is_deleted_is_gone_and_a_new_one_there(
    paged: FakeCluster, paged_client: ReadClient, memory: SnapshotMemory
) -> None:
    taken(paged_client, memory)
    paged.story.states[PARTITIONS[0]] = replace(paged.story.states[PARTITIONS[0]], leader=1)
    del paged.story.states[PARTITIONS[7]]
    stock = TopicPartition("stock", 0)
    paged.story.offline(stock)
    second = taken(paged_client, memory)
    left = [one for one in PARTITIONS if one not in (PARTITIONS[0], PARTITIONS[7])]
    assert [state.partition for state in second.offline] == [*left, stock]
    assert set(second.settings) == {"orders", "stock"}
