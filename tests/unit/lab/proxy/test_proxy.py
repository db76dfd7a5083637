"""The proxy over real sockets, before a broker that is one."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from breakglass.services.errors import LabError
from breakglass.services.kafka.wire.passing import read_frame, send_frame
from breakglass.services.lab.proxy import Proxy
from tests.unit.lab.proxy.conftest import (
    SocketBroker,
    answered,
    connect,
    encoded,
    ended,
    exchange,
    request_frame,
)

METADATA = 3
LIST_OFFSETS = 2
API_VERSIONS = 18
A_MOMENT = 0.3
"""How long a test watches that nothing comes."""


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def test_a_frame_that_comes_byte_by_byte_is_forwarded_whole(
    proxy: Proxy, echo_broker: SocketBroker
) -> None:
    frame = request_frame(b"slow", correlation_id=5)
    with connect(proxy) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in framed(frame):
            client.sendall(bytes([byte]))
        assert read_frame(client) == b"\0\0\0\5slow"
    assert echo_broker.received == [frame]


def test_pipelined_requests_are_answered_in_order(proxy: Proxy) -> None:
    frames = [request_frame(b"%d" % number, correlation_id=number) for number in range(20)]
    with connect(proxy) as client:
        client.sendall(b"".join(map(framed, frames)))
        answers = [read_frame(client) for _ in frames]
    assert answers == [struct.pack(">i", number) + b"%d" % number for number in range(20)]


def test_a_frame_of_megabytes_goes_both_ways(proxy: Proxy) -> None:
    body = bytes(range(256)) * 20_000
    with connect(proxy) as client:
        assert exchange(client, request_frame(body))[4:] == body


def test_every_request_is_recorded(proxy: Proxy) -> None:
    before = time.monotonic()
    with connect(proxy) as client:
        exchange(client, request_frame(api_key=75, api_version=0, client_id="one"))
        exchange(client, request_frame(api_key=1, api_version=12, client_id=None))
    assert [
        (request.api_key, request.api_version, request.client_id) for request in proxy.seen
    ] == [
        (75, 0, "one"),
        (1, 12, None),
    ]
    assert before <= proxy.seen[0].at <= proxy.seen[1].at <= time.monotonic()


def test_a_recorded_request_can_be_decoded(proxy: Proxy) -> None:
    from kafka.protocol.metadata import MetadataRequest

    topic = MetadataRequest.MetadataRequestTopic(name="orders")
    with connect(proxy) as client:
        exchange(client, encoded(MetadataRequest(topics=[topic]), 9))
    (seen,) = proxy.seen
    assert [topic.name for topic in seen.decode(MetadataRequest).topics] == ["orders"]


def test_waiting_for_a_request_that_does_not_come_says_so(proxy: Proxy) -> None:
    with pytest.raises(LabError, match="0 requests of api 43 came"):
        proxy.wait_seen(43, seconds=0.05)


def test_a_broker_that_is_down_looks_down(proxy: Proxy, echo_broker: SocketBroker) -> None:
    echo_broker.stop()
    with pytest.raises(ConnectionResetError), connect(proxy) as client:
        client.recv(1)
    proxy.assert_clean()


def test_a_broker_that_closes_a_connection_closes_the_clients(
    proxy: Proxy, echo_broker: SocketBroker
) -> None:
    with connect(proxy) as client:
        exchange(client, request_frame())
        echo_broker.drop_connections()
        assert ended(client)


def test_records_sent_without_acks_hold_nothing_up(proxy: Proxy, echo_broker: SocketBroker) -> None:
    from kafka.protocol.producer import ProduceRequest

    produce = ProduceRequest(transactional_id=None, acks=0, timeout_ms=1, topic_data=[])
    echo_broker.answering = lambda head, frame: None if head.api_key == 0 else frame[4:8]
    with connect(proxy) as client:
        send_frame(client, encoded(produce, 9))
        assert exchange(client, request_frame(correlation_id=8)) == b"\0\0\0\x08"


class TestCut:
    def test_breaks_connections_and_refuses_new_ones(self, proxy: Proxy) -> None:
        with connect(proxy) as client:
            exchange(client, request_frame())
            proxy.cut()
            assert ended(client)
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)

    def test_keeps_the_port_for_itself(self, proxy: Proxy) -> None:
        proxy.cut()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(proxy.address)

    def test_heals_at_the_same_address(self, proxy: Proxy) -> None:
        for _ in range(3):
            proxy.cut()
            proxy.heal()
            with connect(proxy) as client:
                assert exchange(client, request_frame()) == b"\0\0\0\1body"

    def test_severing_welcomes_new_connections(self, proxy: Proxy) -> None:
        with connect(proxy) as client:
            exchange(client, request_frame())
            proxy.sever()
            assert ended(client)
        with connect(proxy) as client:
            exchange(client, request_frame())


class TestHang:
    def test_accepts_and_never_answers(self, proxy: Proxy, echo_broker: SocketBroker) -> None:
        proxy.hang()
        with connect(proxy) as client:
            send_frame(client, request_frame())
            proxy.wait_seen(METADATA)
            client.settimeout(A_MOMENT)
            with pytest.raises(TimeoutError):
                client.recv(1)
        assert echo_broker.received == []

    def test_holds_the_answer_of_a_request_under_way(
        self, proxy: Proxy, echo_broker: SocketBroker
    ) -> None:
        def hang_first(head: object, frame: bytes) -> bytes:
            proxy.hang()
            return frame[4:8]

        echo_broker.answering = hang_first
        with connect(proxy) as client:
            send_frame(client, request_frame())
            client.settimeout(A_MOMENT)
            with pytest.raises(TimeoutError):
                client.recv(1)

    def test_what_was_held_goes_on_after_healing(self, proxy: Proxy) -> None:
        proxy.hang()
        with connect(proxy) as client:
            send_frame(client, request_frame())
            proxy.wait_seen(METADATA)
            proxy.heal()
            assert read_frame(client) == b"\0\0\0\1body"

    def test_what_was_held_when_the_link_was_cut_is_lost(
        self, proxy: Proxy, echo_broker: SocketBroker
    ) -> None:
        proxy.hang()
        with connect(proxy) as client:
            send_frame(client, request_frame(b"lost"))
            proxy.wait_seen(METADATA)
            proxy.cut()
            assert ended(client)
        proxy.heal()
        with connect(proxy) as client:
            exchange(client, request_frame(b"later"))
        assert [frame[-5:] for frame in echo_broker.received] == [b"later"]

    def test_a_hung_proxy_can_be_closed(self, echo_broker: SocketBroker) -> None:
        with Proxy(echo_broker.address) as proxy:
            proxy.hang()
            with connect(proxy) as client:
                send_frame(client, request_frame())
                proxy.wait_seen(METADATA)
                proxy.close()
                assert ended(client)


def test_a_delay_holds_each_request(proxy: Proxy) -> None:
    proxy.delay(A_MOMENT)
    with connect(proxy) as client:
        start = time.monotonic()
        exchange(client, request_frame())
        assert time.monotonic() - start >= A_MOMENT


class TestSpoiling:
    def test_a_reset_request_never_reaches_the_broker(
        self, proxy: Proxy, echo_broker: SocketBroker
    ) -> None:
        proxy.reset_next(METADATA)
        with connect(proxy) as client:
            send_frame(client, request_frame())
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert echo_broker.received == []

    def test_a_served_request_may_lose_its_answer(
        self, proxy: Proxy, echo_broker: SocketBroker
    ) -> None:
        proxy.reset_next(METADATA, served=True)
        with connect(proxy) as client:
            send_frame(client, request_frame())
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert len(echo_broker.received) == 1

    def test_a_swallowed_answer_never_comes(self, proxy: Proxy, echo_broker: SocketBroker) -> None:
        proxy.swallow_next(METADATA)
        with connect(proxy) as client:
            send_frame(client, request_frame(correlation_id=1))
            send_frame(client, request_frame(correlation_id=2))
            assert read_frame(client) == b"\0\0\0\2body"
        assert len(echo_broker.received) == 2

    def test_only_the_api_and_the_number_asked_for_are_spoilt(self, proxy: Proxy) -> None:
        proxy.reset_next(METADATA, 2)
        with connect(proxy) as client:
            exchange(client, request_frame(api_key=LIST_OFFSETS))
        for _ in range(2):
            with connect(proxy) as client:
                send_frame(client, request_frame())
                assert ended(client)
        with connect(proxy) as client:
            exchange(client, request_frame())

    def test_a_refusal_names_every_partition_asked_for(
        self, proxy: Proxy, echo_broker: SocketBroker
    ) -> None:
        from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

        topic_class = ListOffsetsRequest.ListOffsetsTopic
        partitions = [topic_class.ListOffsetsPartition(partition_index=number) for number in (0, 3)]
        request = ListOffsetsRequest(
            replica_id=-2, topics=[topic_class(name="orders", partitions=partitions)]
        )
        proxy.fail_next(LIST_OFFSETS, error_code=6)
        with connect(proxy) as client:
            frame = exchange(client, encoded(request, 7))
        answer = ListOffsetsResponse.decode(frame, version=7, header=True)
        assert [
            (topic.name, partition.partition_index, partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        ] == [("orders", 0, 6), ("orders", 3, 6)]
        assert echo_broker.received == []


class TestUnderstanding:
    def test_a_request_that_is_none_fails_the_test(self, proxy: Proxy) -> None:
        with connect(proxy) as client:
            send_frame(client, b"\0\3\0")
            assert ended(client)
        with pytest.raises(AssertionError, match="header cannot be read"):
            proxy.assert_clean()

    def test_a_frame_of_absurd_length_fails_the_test(self, proxy: Proxy) -> None:
        with connect(proxy) as client:
            client.sendall(b"GET / HTTP/1.1\r\n")
            assert ended(client)
        with pytest.raises(AssertionError, match="not Kafka's"):
            proxy.assert_clean()

    def test_an_opaque_proxy_looks_at_nothing(self, echo_broker: SocketBroker) -> None:
        with (
            Proxy(echo_broker.address, opaque=True) as proxy,
            connect(proxy) as client,
        ):
            client.sendall(framed(request_frame(b"a")) + framed(request_frame(b"b")))
            assert [read_frame(client), read_frame(client)] == [b"\0\0\0\1a", b"\0\0\0\1b"]
            assert proxy.seen == []
            proxy.cut()
            assert ended(client)


class TestRewriting:
    def versions(self, proxy: Proxy) -> dict[int, tuple[int, int]]:
        from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

        with connect(proxy) as client:
            frame = exchange(client, encoded(ApiVersionsRequest(), 3))
        answer = ApiVersionsResponse.decode(frame, version=3, header=True)
        assert answer.header.correlation_id == 1
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    @pytest.fixture
    def stock_broker(self, echo_broker: SocketBroker) -> SocketBroker:
        """Offers Produce, Fetch, Metadata and ElectLeaders."""
        from kafka.protocol.metadata import ApiVersionsResponse

        offered = {0: (3, 13), 1: (4, 18), 3: (0, 13), 43: (0, 2)}
        echo_broker.answering = answered(
            ApiVersionsResponse(
                api_keys=[
                    ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in offered.items()
                ]
            )
        )
        return echo_broker

    def test_offers_are_added_changed_and_hidden(self, stock_broker: SocketBroker) -> None:
        offers = {43: (0, 3), 93: (0, 0), 3: None}
        with Proxy(stock_broker.address, offers=offers) as proxy:
            assert self.versions(proxy) == {0: (3, 13), 1: (4, 18), 43: (0, 3), 93: (0, 0)}

    def test_moved_brokers_are_not_given_away_by_fetch_and_produce(
        self, stock_broker: SocketBroker
    ) -> None:
        with Proxy(stock_broker.address, addresses={}) as proxy:
            assert self.versions(proxy) == {0: (3, 9), 1: (4, 15), 3: (0, 13), 43: (0, 2)}

    def test_metadata_names_the_proxies(self, echo_broker: SocketBroker) -> None:
        from kafka.protocol.metadata import MetadataRequest, MetadataResponse

        node = MetadataResponse.MetadataResponseBroker
        echo_broker.answering = answered(
            MetadataResponse(
                brokers=[
                    node(node_id=1, host="b1", port=9092),
                    node(node_id=2, host="b2", port=9092),
                ],
                topics=[],
            )
        )
        addresses: dict[int, tuple[str, int]] = {}
        with Proxy(echo_broker.address, addresses=addresses) as proxy:
            addresses[2] = ("127.0.0.1", 17)
            with connect(proxy) as client:
                frame = exchange(client, encoded(MetadataRequest(topics=[]), 9))
        answer = MetadataResponse.decode(frame, version=9, header=True)
        assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [
            (1, "b1", 9092),
            (2, "127.0.0.1", 17),
        ]

    def test_describe_cluster_names_the_proxies(self, echo_broker: SocketBroker) -> None:
        from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

        node = DescribeClusterResponse.DescribeClusterBroker
        brokers = [node(broker_id=2, host="b2", port=9092)]
        echo_broker.answering = answered(DescribeClusterResponse(cluster_id="c", brokers=brokers))
        with (
            Proxy(echo_broker.address, addresses={2: ("127.0.0.1", 17)}) as proxy,
            connect(proxy) as client,
        ):
            frame = exchange(client, encoded(DescribeClusterRequest(), 1))
        (told,) = DescribeClusterResponse.decode(frame, version=1, header=True).brokers
        assert (told.host, told.port) == ("127.0.0.1", 17)

    @pytest.mark.parametrize("version", [1, 4])
    def test_find_coordinator_names_the_proxies(
        self, echo_broker: SocketBroker, version: int
    ) -> None:
        from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

        where = {"node_id": 2, "host": "b2", "port": 9092}
        coordinator = FindCoordinatorResponse.Coordinator(key="group", **where)
        echo_broker.answering = answered(
            FindCoordinatorResponse(coordinators=[coordinator], **where)
        )
        request = FindCoordinatorRequest(key="group", coordinator_keys=["group"])
        with (
            Proxy(echo_broker.address, addresses={2: ("127.0.0.1", 17)}) as proxy,
            connect(proxy) as client,
        ):
            frame = exchange(client, encoded(request, version))
        answer = FindCoordinatorResponse.decode(frame, version=version, header=True)
        told = answer.coordinators[0] if version == 4 else answer
        assert (told.host, told.port) == ("127.0.0.1", 17)

    def test_an_unchanged_answer_keeps_its_bytes(self, echo_broker: SocketBroker) -> None:
        with (
            Proxy(echo_broker.address, offers={93: (0, 0)}) as proxy,
            connect(proxy) as client,
        ):
            assert exchange(client, request_frame(b"\xff" * 9)) == b"\0\0\0\1" + b"\xff" * 9
