"""The proxy over real sockets: what it forwards, spoils and rewrites."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest

from breakglass.services.errors import LabError
from breakglass.services.kafka.wire.passing import (
    Head,
    answer_frame,
    parse_head,
    read_frame,
    send_frame,
)
from breakglass.services.lab.proxy import Proxy
from breakglass.services.lab.proxy.rewriting import classes_of, message_classes, refusal
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.kafka.wire.test_passing import encoded, request_frame

METADATA, LIST_OFFSETS = 3, 2
Answering = Callable[[Head, bytes], bytes | None]


def echo(head: Head, frame: bytes) -> bytes:
    """The correlation id, and all that followed the header."""
    return struct.pack(">i", head.correlation_id) + frame[head.end :]


@dataclass
class SocketBroker:
    """Accepts connections and answers each frame by `answering`; None answers nothing."""

    answering: Answering = echo
    received: list[bytes] = field(default_factory=list)
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listener.getsockname()
        return host, port

    def answer_with(self, message: Any) -> None:
        self.answering = lambda head, _: answer_frame(head, message)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while (frame := read_frame(connection)) is not None:
                self.received.append(frame)
                answer = self.answering(parse_head(frame), frame)
                if answer is not None:
                    send_frame(connection, answer)


@pytest.fixture
def broker() -> Iterator[SocketBroker]:
    broker = SocketBroker()
    threading.Thread(target=broker.accept, daemon=True).start()
    yield broker
    broker.stop()


@pytest.fixture
def proxy(broker: SocketBroker) -> Iterator[Proxy]:
    with Proxy(broker.address) as proxy:
        yield proxy


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(proxy.address, timeout=DEADLINE_SECONDS)


def exchange(sock: socket.socket, frame: bytes) -> bytes:
    send_frame(sock, frame)
    answer = read_frame(sock)
    assert answer is not None
    return answer


def ended(sock: socket.socket) -> bool:
    """Whether the peer closes or resets the connection, saying nothing more."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


class TestForwarding:
    def test_every_request_is_recorded_and_can_be_decoded(self, proxy: Proxy) -> None:
        topic = MetadataRequest.MetadataRequestTopic(name="orders")
        with connect(proxy) as client:
            exchange(client, request_frame(api_key=75, client_id="one"))
            exchange(client, encoded(MetadataRequest(topics=[topic]), 9))
        first, second = proxy.seen
        assert (first.api_key, first.api_version, first.client_id) == (75, 0, "one")
        assert [topic.name for topic in second.decode(MetadataRequest).topics] == ["orders"]


class TestDamage:
    def test_a_cut_breaks_connections_and_keeps_the_port_until_it_heals(self, proxy: Proxy) -> None:
        with connect(proxy) as client:
            exchange(client, request_frame())
            proxy.cut()
            assert ended(client)
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(proxy.address)
        proxy.heal()
        with connect(proxy) as client:
            assert exchange(client, request_frame()) == b"\0\0\0\1body"

    @pytest.mark.parametrize("end", [Proxy.heal, Proxy.cut, Proxy.close])
    def test_a_hung_link_holds_requests_until_it_heals_and_loses_them_if_it_ends(
        self, proxy: Proxy, broker: SocketBroker, end: Callable[[Proxy], None]
    ) -> None:
        proxy.hang()
        with connect(proxy) as client:
            send_frame(client, request_frame())
            proxy.wait_seen(METADATA)
            assert broker.received == []
            end(proxy)
            if end is Proxy.heal:
                assert read_frame(client) == b"\0\0\0\1body"
            else:
                assert ended(client)
        assert len(broker.received) == (end is Proxy.heal)

    @pytest.mark.parametrize("served", [False, True])
    def test_a_reset_may_be_served(self, proxy: Proxy, broker: SocketBroker, served: bool) -> None:
        proxy.reset_next(METADATA, served=served)
        with connect(proxy) as client:
            send_frame(client, request_frame())
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert len(broker.received) == served

    def test_a_swallowed_answer_never_comes(self, proxy: Proxy, broker: SocketBroker) -> None:
        proxy.swallow_next(METADATA)
        with connect(proxy) as client:
            send_frame(client, request_frame(correlation_id=1))
            send_frame(client, request_frame(correlation_id=2))
            assert read_frame(client) == b"\0\0\0\2body"
        assert len(broker.received) == 2


class TestRefusing:
    def test_a_refusal_names_each_partition_asked(self, proxy: Proxy, broker: SocketBroker) -> None:
        topic_class = ListOffsetsRequest.ListOffsetsTopic
        partitions = [topic_class.ListOffsetsPartition(partition_index=number) for number in (0, 3)]
        topics = [topic_class(name="orders", partitions=partitions)]
        proxy.fail_next(LIST_OFFSETS, error_code=6)
        with connect(proxy) as client:
            frame = exchange(client, encoded(ListOffsetsRequest(replica_id=-2, topics=topics), 7))
        (topic,) = ListOffsetsResponse.decode(frame, version=7, header=True).topics
        told = [(one.partition_index, one.error_code) for one in topic.partitions]
        assert (topic.name, told, broker.received) == ("orders", [(0, 6), (3, 6)], [])

    def test_every_api_can_be_refused_in_every_version(self) -> None:
        for key, (_, response_class) in message_classes().items():
            request_class, _ = classes_of(key)
            for version in (0, response_class.max_version):
                assert refusal(request_class(), response_class, 6).encode(version=version)
        with pytest.raises(LabError):
            classes_of(999)


def test_offers_are_added_changed_and_hidden(broker: SocketBroker) -> None:
    version = ApiVersionsResponse.ApiVersion
    stock = {0: (3, 13), 1: (4, 18), 3: (0, 13), 43: (0, 2)}
    keys = [
        version(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in stock.items()
    ]
    broker.answer_with(ApiVersionsResponse(api_keys=keys))
    offers = {43: (0, 3), 93: (0, 0), 3: None}
    with Proxy(broker.address, offers=offers) as proxy, connect(proxy) as client:
        frame = exchange(client, encoded(ApiVersionsRequest(), 3))
    answer = ApiVersionsResponse.decode(frame, version=3, header=True)
    offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert offered == {0: (3, 13), 1: (4, 18), 43: (0, 3), 93: (0, 0)}
