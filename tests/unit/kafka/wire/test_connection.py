"""One connection over a real socket: versions, torn and alien answers, waits, throttling."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest, MetadataResponse

from breakglass.services import errors, patience
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.connection import BrokerConnection, first_to_answer
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from tests.kit.deadlines import HOUR, ample
from tests.kit.fake_broker import FakeBroker, Raw
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

PLAIN = ClientSecurity(ConnectionSettings((Endpoint("127.0.0.1", 1),)))
A_MOMENT = 0.2
"""Of a deadline that has to pass: the peer is silent for longer than the test takes."""


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """Answers Metadata with its own name."""
    with FakeBroker() as broker:
        broker.serve(MetadataRequest, lambda _: MetadataResponse(cluster_id="here"))
        yield broker


@pytest.fixture
def connection(broker: FakeBroker) -> Iterator[BrokerConnection]:
    """To `broker`, as it is when the test begins."""
    with closing(connect(broker)) as connection:
        yield connection


def connect(broker: FakeBroker) -> BrokerConnection:
    return BrokerConnection(broker.endpoint, PLAIN, "tests", ample())


def ask(connection: BrokerConnection, seconds: float = DEADLINE_SECONDS, **options: Any) -> Any:
    return connection.call(
        MetadataRequest(topics=[]), MetadataResponse, Deadline.after(seconds), **options
    )


def frame(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


class TestVersions:
    def test_the_highest_version_that_both_know_is_used(self, broker: FakeBroker) -> None:
        broker.serve(MetadataRequest, lambda _: MetadataResponse(cluster_id="here"), (4, 9))
        with closing(connect(broker)) as connection:
            assert ask(connection).cluster_id == "here"
            ask(connection, max_version=5)
        assert [one.version for one in broker.received] == [9, 5]


SIZES = {f"a frame of {size} bytes": Raw(struct.pack(">i", size)) for size in (-1, 0, 3, 2**28 + 1)}


class TestAnswersThatAreNone:
    @pytest.mark.parametrize(
        ("sent", "error"),
        [
            *((sent, errors.ConnectFailed) for sent in SIZES.values()),
            (Raw(frame(4711)), errors.ConnectFailed),
            (Raw(frame(2, b"\0" + b"\xff" * 20)), errors.MalformedMessage),
        ],
        ids=[*SIZES, "an answer to another question", "an answer that cannot be decoded"],
    )
    def test_bytes_that_are_no_answer_cost_the_connection(
        self, broker: FakeBroker, connection: BrokerConnection, sent: Raw, error: type[Exception]
    ) -> None:
        broker.serve(MetadataRequest, lambda _: sent)
        with pytest.raises(error):
            ask(connection)
        assert connection.closed

    def test_a_web_server_is_told_from_a_broker(self, broker: FakeBroker) -> None:
        broker.serve(ApiVersionsRequest, lambda _: Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        with pytest.raises(errors.ConnectFailed) as caught:
            connect(broker)
        assert "not Kafka's protocol" in caught.value.reason

    @pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">i", 100), frame(2)[:6]])
    def test_a_connection_that_closes_within_an_answer_is_a_failed_one(
        self, broker: FakeBroker, connection: BrokerConnection, sent: bytes
    ) -> None:
        def torn(_: Any) -> Any:
            threading.Thread(target=broker.drop_connections, daemon=True).start()
            return Raw(sent)

        broker.serve(MetadataRequest, torn)
        with pytest.raises(errors.ConnectFailed):
            ask(connection)
        assert connection.closed


class TestWaiting:
    def test_an_answer_that_trickles_in_is_cut_off_at_the_deadline(
        self, broker: FakeBroker, connection: BrokerConnection
    ) -> None:
        """Each byte comes in time, and they go on until the answer is given up."""
        given_up = threading.Event()

        def trickle(_: Any) -> Any:
            def drip() -> None:
                # The client hangs up when it gives the answer up.
                with suppress(OSError):
                    while not given_up.wait(0.01):
                        broker._connections[0].send(b"\0")

            threading.Thread(target=drip, daemon=True).start()
            return Raw(struct.pack(">i", 2**20))

        broker.serve(MetadataRequest, trickle)
        with pytest.raises(errors.TimedOut):
            ask(connection, A_MOMENT)
        given_up.set()


def test_without_the_time_to_keep_silent_as_asked_nothing_is_sent_and_the_connection_stays(
    broker: FakeBroker, connection: BrokerConnection
) -> None:
    """KIP-219: the answer comes at once, and the client stays silent afterwards."""
    broker.serve(MetadataRequest, lambda _: MetadataResponse(throttle_time_ms=100))
    ask(connection)
    broker.serve(MetadataRequest, lambda _: MetadataResponse(throttle_time_ms=3_600_000))
    ask(connection)
    first, second = broker.received
    assert second.at - first.at >= 0.1
    with pytest.raises(errors.TimedOut):
        ask(connection)
    assert len(broker.received) == 2
    assert not connection.closed


METADATA = 3


@pytest.fixture
def brokers() -> Iterator[list[FakeBroker]]:
    with FakeBroker() as one, FakeBroker() as another:
        yield [one, another]


@pytest.fixture
def short_head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD_START", 0.01)
    monkeypatch.setattr(patience, "ENDING", 0.01)


def plain(server: Endpoint, deadline: Deadline) -> BrokerConnection:
    return BrokerConnection(
        server, ClientSecurity(ConnectionSettings((server,))), "tests", deadline
    )


def race(*servers: Endpoint) -> Endpoint:
    winner, connection = first_to_answer(servers, plain, ample())
    connection.close()
    return winner


@pytest.mark.usefixtures("short_head_start")
@pytest.mark.parametrize("count", [1, 2])
def test_hung_servers_cost_a_head_start_each_and_stay_hung_meanwhile(
    hung: Endpoint, brokers: list[FakeBroker], count: int
) -> None:
    silent = (hung, hung._replace(host="localhost"))[:count]
    assert race(*silent, brokers[0].endpoint) == brokers[0].endpoint


def test_other_addresses_are_asked_for_only_where_no_server_answers_at_once(
    dead: Endpoint, brokers: list[FakeBroker]
) -> None:
    first, second = brokers
    asked: list[str] = []

    def others() -> list[Endpoint]:
        asked.append("others")
        return [dead, second.endpoint]

    for server, winner, times in ((first.endpoint, first, 0), (dead, second, 1)):
        found, connection = first_to_answer((server,), plain, ample(), others)
        connection.close()
        assert (found, len(asked)) == (winner.endpoint, times)
    with pytest.raises(errors.ConnectFailed) as caught:
        first_to_answer((dead,), plain, ample(), lambda: [dead, dead._replace(host="localhost")])
    assert "any of 1 other" in str(caught.value)


@pytest.fixture
def cut_off() -> Iterator[Endpoint]:
    """An address that takes no connection and refuses none: its queue is full."""
    with ExitStack() as opened:
        listener = opened.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = opened.enter_context(socket.socket())
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(listener.getsockname())
        yield Endpoint(*listener.getsockname())


@pytest.mark.parametrize("address", ["hung", "cut_off"])
def test_closing_ends_the_wait_to_connect(address: str, request: pytest.FixtureRequest) -> None:
    at: Endpoint = request.getfixturevalue(address)
    security, addresses = ClientSecurity(ConnectionSettings((at,))), {1: at}
    sender = Sender(
        (at,), security, api_keys.READ, broker_addresses=addresses, connect_seconds=HOUR
    )
    ended: list[errors.BreakglassError] = []

    def wait_for_connection() -> None:
        try:
            sender.offers(1, METADATA, Deadline.after(HOUR))
        except errors.BreakglassError as error:
            ended.append(error)

    threading.Thread(target=wait_for_connection, daemon=True).start()
    wait_until(lambda: any(map(_connects, sender._opening._sockets)), "a connection to be begun")
    sender.close()
    wait_until(lambda: ended, "the wait to end")
    with pytest.raises(errors.SessionClosing):
        sender.offers(1, METADATA, ample())


def _connects(sock: socket.socket) -> bool:
    """Whether its SYN is sent: the system gives the port before."""
    return bool(sock.getsockname()[1])
