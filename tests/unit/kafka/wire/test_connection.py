"""One connection over a real socket: versions, torn and alien answers, waits, throttling."""

from __future__ import annotations

import gc
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest, MetadataResponse

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import (
    ConnectFailed,
    MalformedMessage,
    TimedOut,
    UnsupportedByCluster,
)
from breakglass.services.kafka.wire.connection import BrokerConnection
from breakglass.services.kafka.wire.deadline import Deadline
from tests.kit.fake_broker import FakeBroker, HangUp, Raw
from tests.kit.waiting import within

PATIENCE = 10.0
PLAIN = ClientSecurity(ConnectionSettings((Endpoint("127.0.0.1", 1),)))


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """Answers Metadata and DescribeCluster with its own name."""
    with FakeBroker() as broker:
        broker.serve(MetadataRequest, lambda _: MetadataResponse(cluster_id="here"))
        broker.serve(DescribeClusterRequest, lambda _: DescribeClusterResponse(cluster_id="here"))
        yield broker


@pytest.fixture
def connection(broker: FakeBroker) -> Iterator[BrokerConnection]:
    """To `broker`, as it is when the test begins."""
    with closing(connect(broker)) as connection:
        yield connection


def connect(broker: FakeBroker) -> BrokerConnection:
    return BrokerConnection(broker.endpoint, PLAIN, "tests", Deadline.after(PATIENCE))


def closed_endpoint() -> Endpoint:
    """Where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Endpoint(*listener.getsockname()[:2])


def ask(connection: BrokerConnection, seconds: float = PATIENCE, **options: Any) -> Any:
    return connection.call(
        MetadataRequest(topics=[]), MetadataResponse, Deadline.after(seconds), **options
    )


def frame(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


class TestVersions:
    def test_the_highest_version_that_both_sides_know_is_used(self, broker: FakeBroker) -> None:
        broker.serve(MetadataRequest, lambda _: MetadataResponse(cluster_id="here"), (4, 9))
        with closing(connect(broker)) as connection:
            assert ask(connection).cluster_id == "here"
        assert [received.version for received in broker.received] == [9]

    def test_a_cap_is_kept_below_what_the_broker_offers(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        ask(connection, max_version=5)
        assert [received.version for received in broker.received] == [5]

    def test_an_api_that_is_not_offered_is_never_sent(self) -> None:
        with FakeBroker() as broker, closing(connect(broker)) as connection:
            with pytest.raises(
                UnsupportedByCluster, match="does not support Metadata requests: upgrade its Kafka"
            ):
                ask(connection)
            assert broker.received == []

    def test_versions_that_are_all_too_new_are_never_sent(self, broker: FakeBroker) -> None:
        broker.serve(MetadataRequest, lambda _: None, (90, 91))
        with (
            closing(connect(broker)) as connection,
            pytest.raises(UnsupportedByCluster, match="use a newer Breakglass"),
        ):
            ask(connection)
        assert broker.received == []

    def test_a_broker_too_old_for_our_api_versions_is_asked_by_the_oldest(
        self, broker: FakeBroker
    ) -> None:
        broker.version_errors.append(35)
        with closing(connect(broker)) as connection:
            assert ask(connection).cluster_id == "here"

    def test_the_client_id_goes_with_every_request(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        ask(connection)
        assert {received.client_id for received in broker.received} == {"tests"}


class TestAnswersThatAreNone:
    def test_an_answer_to_another_question_costs_the_connection(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        broker.serve(MetadataRequest, lambda _: Raw(frame(4711)))
        with pytest.raises(ConnectFailed, match="answered out of order"):
            ask(connection)
        assert connection.closed

    @pytest.mark.parametrize("size", [-1, 0, 3, 256 * 1024 * 1024 + 1, 2**31 - 1])
    def test_a_frame_of_an_impossible_size_is_refused_before_it_is_read(
        self, broker: FakeBroker, connection: BrokerConnection, size: int
    ) -> None:
        broker.serve(MetadataRequest, lambda _: Raw(struct.pack(">i", size)))
        with pytest.raises(ConnectFailed, match=f"a frame of {size} bytes"):
            ask(connection)
        assert connection.closed

    def test_a_web_server_is_told_from_a_broker(self, broker: FakeBroker) -> None:
        broker.serve(ApiVersionsRequest, lambda _: Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        with pytest.raises(ConnectFailed, match="is not Kafka's protocol"):
            connect(broker)

    @pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">i", 100), frame(2)[:6]])
    def test_a_connection_that_closes_within_an_answer_is_a_failed_one(
        self, broker: FakeBroker, connection: BrokerConnection, sent: bytes
    ) -> None:
        replies: Iterator[Any] = iter([Raw(sent)])

        def reply(_: Any) -> Any:
            broker.serve(MetadataRequest, hang_up)
            threading.Thread(target=broker.drop_connections, daemon=True).start()
            return next(replies)

        broker.serve(MetadataRequest, reply)
        with pytest.raises(ConnectFailed, match="cannot be spoken to"):
            ask(connection)
        assert connection.closed

    def test_an_answer_that_cannot_be_decoded_is_malformed(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        broker.serve(MetadataRequest, lambda _: Raw(frame(2, b"\0" + b"\xff" * 20)))
        with pytest.raises(MalformedMessage, match="MetadataResponse"):
            ask(connection)
        assert connection.closed

    @settings(max_examples=150)
    @given(st.binary(max_size=60))
    def test_no_bytes_of_an_answer_raise_anything_but_our_errors(self, body: bytes) -> None:
        with FakeBroker() as broker:
            broker.serve(MetadataRequest, lambda _: Raw(frame(2, body)))
            with closing(connect(broker)) as connection, suppress(MalformedMessage):
                ask(connection)


def throttle(broker: FakeBroker, milliseconds: int) -> None:
    """Ask for silence with every answer."""
    broker.serve(MetadataRequest, lambda _: MetadataResponse(throttle_time_ms=milliseconds))


def hang_up(_: Any) -> Any:
    raise HangUp


class TestWaiting:
    def test_silence_ends_at_the_deadline_and_costs_the_connection(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        broker.serve(MetadataRequest, lambda _: None)
        began = time.monotonic()
        with pytest.raises(TimedOut, match="did not answer in time"):
            ask(connection, 0.2)
        assert 0.2 <= time.monotonic() - began < within(2.0)
        assert connection.closed

    def test_a_passed_deadline_sends_nothing(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        with pytest.raises(TimedOut):
            ask(connection, 0.0)
        assert broker.received == []

    def test_an_answer_that_trickles_in_is_cut_off_at_the_deadline(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        """Each byte comes in time; the answer as a whole does not."""
        stop = threading.Event()

        def trickle(_: Any) -> Any:
            def drip() -> None:
                # The client hangs up when it gives the answer up.
                with suppress(OSError):
                    while not stop.wait(0.05):
                        broker._connections[0].send(b"\0")

            threading.Thread(target=drip, daemon=True).start()
            return Raw(struct.pack(">i", 10_000))

        broker.serve(MetadataRequest, trickle)
        began = time.monotonic()
        with pytest.raises(TimedOut):
            ask(connection, 0.3)
        assert time.monotonic() - began < within(2.0)
        stop.set()

    def test_a_listener_that_never_accepts_is_given_up_in_time(self) -> None:
        """As a stopped process: the system connects, nobody answers."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            began = time.monotonic()
            with pytest.raises(TimedOut):
                BrokerConnection(
                    Endpoint(*listener.getsockname()[:2]), PLAIN, "tests", Deadline.after(0.2)
                )
            assert time.monotonic() - began < within(2.0)

    def test_a_refused_connection_says_so_in_short(self) -> None:
        closed = closed_endpoint()
        with pytest.raises(ConnectFailed) as caught:
            BrokerConnection(closed, PLAIN, "tests", Deadline.after(PATIENCE))
        assert caught.value.reason == "connection refused"
        assert str(closed) in str(caught.value)

    def test_a_refused_connection_leaves_no_garbage_for_the_collector(self) -> None:
        closed = closed_endpoint()
        gc.collect()
        gc.disable()
        try:
            with suppress(ConnectFailed):
                BrokerConnection(closed, PLAIN, "tests", Deadline.after(PATIENCE))
            left = gc.collect()
        finally:
            gc.enable()

        assert left == 0

    def test_closing_ends_the_wait_of_another_thread(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        broker.serve(MetadataRequest, lambda _: None)
        caught: list[Exception] = []

        def wait() -> None:
            try:
                ask(connection)
            except ConnectFailed as error:
                caught.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        broker.wait_for(lambda: len(broker.received) == 1, "the request")
        connection.close()
        waiting.join(PATIENCE)
        assert len(caught) == 1


class TestThrottling:
    """KIP-219: the answer comes at once, and the client stays silent afterwards."""

    def test_the_next_request_waits_as_long_as_asked(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        throttle(broker, 300)
        ask(connection)
        ask(connection)
        first, second = broker.received
        assert second.at - first.at >= 0.3

    def test_without_the_time_to_wait_nothing_is_sent_and_the_connection_stays(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        throttle(broker, 5_000)
        ask(connection)
        with pytest.raises(TimedOut, match="throttles this user"):
            ask(connection, 0.5)
        assert len(broker.received) == 1
        assert not connection.closed
