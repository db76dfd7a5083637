"""The proxy before real brokers: native RPCs by translation, cuts, and clients that stay behind.

One lab for all: b3 led `orders` last and is dead, b1 and b2 came back without its last
records; b2 reaches the controller through a proxy. Each test uses a partition of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

import pytest

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import ConnectFailed
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectLeadersResponse,
    LogInfoSchema,
    designated_election,
    replica_log_info,
)
from breakglass.services.kafka.wire.native_rpc import find_native_rpc
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Address, Listener
from breakglass.services.lab.produce import produce
from breakglass.services.lab.proxy import Proxy
from breakglass.services.lab.segments import read_log
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import PartitionState, TopicPartition
from tests.kit.native_rpc.native import Native

ORDERS = "orders"
MANY = "many"
MANY_PARTITIONS = 40
ORDER = (3, 1, 2)
DESIGNATED, REFUSED, STOCK, FENCED = (TopicPartition(ORDERS, number) for number in range(4))
CONTROLLER = 101
SECONDS = 300.0
ELECT_LEADERS = 43
NO_LOG = logging.getLogger("librdkafka of the tests")


def lose(cluster: Cluster, broker: int) -> None:
    """Stop a follower and wait until the ISR is without it."""
    cluster.broker(broker).stop()
    cluster.wait_until(
        lambda: not any(broker in partition.isr for partition in cluster.partitions(ORDERS)),
        f"b{broker} to leave the ISR",
    )


def write(cluster: Cluster, count: int) -> None:
    """Write *count* records into each partition of orders, acknowledged by the whole ISR."""
    for number in range(4):
        produce(cluster, ORDERS, number, count)


@pytest.fixture(scope="module")
def controller_link() -> Iterator[Callable[[Address], Proxy]]:
    with ExitStack() as proxies:
        yield lambda upstream: proxies.enter_context(Proxy(upstream))


@pytest.fixture(scope="module")
def lab(
    tmp_path_factory: pytest.TempPathFactory, controller_link: Callable[[Address], Proxy]
) -> Iterator[tuple[Cluster, Proxy]]:
    """The damaged cluster, and the proxy through which b2 reaches the controller."""
    with Cluster.plan(tmp_path_factory.mktemp("lab"), tethered=True) as cluster:
        link = controller_link(cluster.node(CONTROLLER).address(Listener.CONTROLLER))
        cluster.link_controller(2, CONTROLLER, link.address)
        cluster.start()
        create_topic(cluster, MANY, [[1]] * MANY_PARTITIONS)
        create_topic(cluster, ORDERS, [ORDER] * 4)
        write(cluster, 10)
        lose(cluster, 2)
        write(cluster, 5)
        lose(cluster, 1)
        write(cluster, 3)
        cluster.broker(3).kill()
        for broker in (1, 2):
            cluster.broker(broker).start()
        cluster.wait_ready()
        cluster.wait_until(
            lambda: all(
                partition.offline == (partition.partition.topic == ORDERS)
                for broker in (1, 2)
                for partition in cluster.partitions(ORDERS, MANY, via=broker)
            ),
            "orders alone to be offline",
        )
        yield cluster, link


@pytest.fixture(scope="module")
def cluster(lab: tuple[Cluster, Proxy]) -> Cluster:
    return lab[0]


@contextmanager
def native_proxy(cluster: Cluster, broker: int, native: Native) -> Iterator[Proxy]:
    with Proxy(cluster.broker(broker).address(), native=native) as proxy:
        yield proxy


def ask(proxy: Proxy, request: Any, response_class: Any) -> Any:
    with Conversation(proxy.address, SECONDS) as conversation:
        return conversation.ask(request, response_class)


def log_infos(
    proxy: Proxy, form: LogInfoSchema, partitions: Mapping[UUID, list[int]]
) -> tuple[Any, dict[int, Any]]:
    """The answer, and its entries by partition number."""
    messages = replica_log_info(form)
    answer = ask(proxy, messages.request(partitions), messages.response_class)
    return answer, {
        one.partition: one
        for topic in answer.topic_partition_log_info_list
        for one in topic.partition_log_info
    }


def designate(proxy: Proxy, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Error codes by partition."""
    answer = ask(proxy, designated_election(leaders, 10_000), ElectLeadersResponse)
    assert answer.error_code == 0
    return {
        TopicPartition(topic.topic, one.partition_id): one.error_code
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }


def state(cluster: Cluster, partition: TopicPartition) -> PartitionState:
    return cluster.partition(partition.topic, partition.partition)


class TestReplicaLogInfo:
    @pytest.mark.parametrize("broker", [1, 2])
    @pytest.mark.parametrize("form", LogInfoSchema)
    def test_the_figures_are_those_on_the_brokers_disk(
        self, cluster: Cluster, broker: int, form: LogInfoSchema
    ) -> None:
        offline = state(cluster, REFUSED)
        log = read_log(cluster.broker(broker).partition_folder(ORDERS, REFUSED.partition))
        with native_proxy(cluster, broker, Native(form, broker_epoch=42)) as proxy:
            answer, told = log_infos(proxy, form, {offline.topic_id: [REFUSED.partition]})
            proxy.assert_clean()
        entry = told[REFUSED.partition]
        assert (entry.error_code, entry.log_end_offset) == (0, log.end)
        assert answer.broker_epoch == 42
        if form is LogInfoSchema.KIP:
            assert entry.partition_leader_epoch == offline.leader_epoch
        else:
            assert entry.current_leader_epoch == offline.leader_epoch
            assert entry.last_written_leader_epoch == log.epochs[-1].epoch

    @pytest.mark.parametrize("form", [LogInfoSchema.KIP, LogInfoSchema.MERGED])
    def test_our_probe_finds_the_form(self, cluster: Cluster, form: LogInfoSchema) -> None:
        topic_id = state(cluster, REFUSED).topic_id
        with native_proxy(cluster, 1, Native(form)) as proxy:
            settings = ConnectionSettings((Endpoint(*proxy.address),))
            sender = Sender(settings.bootstrap_servers, ClientSecurity(settings), frozenset({93}))
            found = find_native_rpc(sender, "auto", topic_id, 0, Deadline.after(SECONDS))
            sender.close()
            proxy.assert_clean()
        assert found.log_info is not None
        assert found.log_info.form is form
        assert found.designates

    def test_the_first_1000_partitions_are_served_and_the_rest_announced(
        self, cluster: Cluster
    ) -> None:
        topic_id = cluster.partition(MANY, 0).topic_id
        asked = list(range(1_200))
        with native_proxy(cluster, 1, Native()) as proxy:
            first, served = log_infos(proxy, LogInfoSchema.KIP, {topic_id: asked})
            rest, others = log_infos(proxy, LogInfoSchema.KIP, {topic_id: asked[1_000:]})
        assert (first.has_more_data, sorted(served)) == (True, asked[:1_000])
        assert (rest.has_more_data, sorted(others)) == (False, asked[1_000:])
        assert [one for one in asked[:1_000] if served[one].error_code == 0] == asked[:40]

    def test_a_broker_without_the_replica_and_an_unknown_topic_are_errors(
        self, cluster: Cluster
    ) -> None:
        many = cluster.partition(MANY, 0).topic_id
        with native_proxy(cluster, 2, Native()) as proxy:
            _, told = log_infos(proxy, LogInfoSchema.KIP, {many: [0], UUID(int=5): [7]})
        assert (told[0].error_code, told[0].log_end_offset) == (6, -1)
        assert (told[7].error_code, told[7].log_end_offset) == (100, -1)

    def test_missing_acls_and_chosen_errors_are_told_by_partition(self, cluster: Cluster) -> None:
        orders = state(cluster, REFUSED).topic_id
        many = cluster.partition(MANY, 10).topic_id
        native = Native(
            deny_describe={ORDERS},
            errors={TopicPartition(MANY, 10): 56},
            leave_out={TopicPartition(MANY, 11)},
        )
        with native_proxy(cluster, 1, native) as proxy:
            _, told = log_infos(proxy, LogInfoSchema.KIP, {orders: [0], many: [10, 11, 12]})
            assert {one: entry.error_code for one, entry in told.items()} == {0: 29, 10: 56, 12: 0}
            _, told = log_infos(proxy, LogInfoSchema.KIP, {many: [11]})
            assert told[11].error_code == 0
            native.deny_cluster_action = True
            _, told = log_infos(proxy, LogInfoSchema.KIP, {many: [11, 12]})
            assert {entry.error_code for entry in told.values()} == {31}


class TestDesignatedElection:
    def test_the_last_in_the_order_is_elected_when_designated(self, cluster: Cluster) -> None:
        with native_proxy(cluster, 1, Native()) as proxy:
            assert designate(proxy, {DESIGNATED: 2}) == {DESIGNATED: 0}
            (seen,) = [request for request in proxy.seen if request.api_key == ELECT_LEADERS]
            assert seen.api_version == 3
            cluster.wait_partition(
                ORDERS, 0, lambda now: now.assignment == ORDER, "the order to be restored"
            )
            assert state(cluster, DESIGNATED).leader == 2
            assert designate(proxy, {DESIGNATED: 1}) == {DESIGNATED: 84}
            proxy.assert_clean()

    @pytest.mark.parametrize(
        ("partition", "designee", "code"),
        [
            (REFUSED, 3, 83),
            (REFUSED, 9, 83),
            (TopicPartition(MANY, 0), 1, 84),
            (TopicPartition(ORDERS, 99), 1, 3),
            (TopicPartition("none", 0), 1, 3),
        ],
        ids=["fenced", "unassigned", "online", "no partition", "no topic"],
    )
    def test_the_safety_properties_hold(
        self, cluster: Cluster, partition: TopicPartition, designee: int, code: int
    ) -> None:
        with native_proxy(cluster, 2, Native()) as proxy:
            assert designate(proxy, {partition: designee}) == {partition: code}
            proxy.assert_clean()
        assert state(cluster, REFUSED).offline

    def test_an_election_without_designees_is_the_brokers_own(self, cluster: Cluster) -> None:
        from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest

        topic = ElectLeadersRequest.TopicPartitions(topic=ORDERS, partitions=[STOCK.partition])
        request = ElectLeadersRequest(election_type=1, topic_partitions=[topic], timeout_ms=10_000)
        with native_proxy(cluster, 1, Native()) as proxy:
            answer = ask(proxy, request, ElectLeadersResponse)
        assert answer.replica_election_results[0].partition_result[0].error_code == 0
        elected = cluster.wait_partition(
            ORDERS, STOCK.partition, lambda now: not now.offline, "a leader"
        )
        assert elected.leader == 1

    def test_a_request_of_another_form_fails_the_test(self, cluster: Cluster) -> None:
        messages = replica_log_info(LogInfoSchema.KIP966)
        with native_proxy(cluster, 1, Native(LogInfoSchema.KIP)) as proxy:
            with pytest.raises(ConnectFailed):
                ask(proxy, messages.request({UUID(int=5): [0]}), messages.response_class)
            with pytest.raises(AssertionError, match="not a GetReplicaLogInfoRequest"):
                proxy.assert_clean()


def test_a_broker_cut_from_its_controller_is_fenced_but_answers_clients(
    lab: tuple[Cluster, Proxy],
) -> None:
    cluster, link = lab
    link.cut()
    try:
        cluster.wait_fenced(2)
        cluster.wait_until(
            lambda: 2 in cluster.partition(ORDERS, FENCED.partition, via=1).offline_replicas,
            "b1 to know that b2 is fenced",
        )
        with native_proxy(cluster, 1, Native()) as proxy:
            assert designate(proxy, {FENCED: 2}) == {FENCED: 83}
        with native_proxy(cluster, 2, Native()) as proxy:
            _, told = log_infos(proxy, LogInfoSchema.KIP, {state(cluster, FENCED).topic_id: [3]})
        assert told[3].log_end_offset == 10
    finally:
        link.heal()
    cluster.wait_unfenced(2)
    link.assert_clean()


def test_clients_stay_behind_proxies_that_brokers_do_not_know_of(cluster: Cluster) -> None:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka import TopicPartition as Place

    addresses: dict[int, tuple[str, int]] = {}
    with ExitStack() as stack:
        proxies = {
            broker: stack.enter_context(
                Proxy(cluster.broker(broker).address(), addresses=addresses)
            )
            for broker in (1, 2)
        }
        addresses.update({broker: proxy.address for broker, proxy in proxies.items()})
        settings = {"bootstrap.servers": f"{proxies[2].address}", "client.id": "behind"}
        producer = Producer(settings, logger=NO_LOG)
        producer.produce(MANY, b"hello", partition=5)
        assert producer.flush(SECONDS) == 0
        consumer = Consumer({**settings, "group.id": "behind"}, logger=NO_LOG)
        consumer.assign([Place(MANY, 5, 0)])
        record = consumer.poll(SECONDS)
        assert record is not None
        assert record.value() == b"hello"
        consumer.close()
        used = {request.api_key for request in proxies[1].seen if request.client_id == "behind"}
        assert {0, 1} <= used
        for proxy in proxies.values():
            proxy.assert_clean()
