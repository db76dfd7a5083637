"""The one way out: what may leave, by which connection, and that nothing leaves twice."""

import importlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse, ElectLeadersRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from breakglass.console import output
from breakglass.services import errors
from breakglass.services.clock import NOTICE_SECONDS, Waits
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.sasl import (
    OAuthLogin,
    PasswordLogin,
    SaslSettings,
    TokenEndpoint,
)
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings, SecurityProtocol
from breakglass.services.kafka.wire import api_keys, connection
from breakglass.services.kafka.wire import sender as sender_module
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.messages.other import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
)
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.snapshot import Broker
from tests.kit.clock import Clock
from tests.kit.deadlines import HOUR, ample
from tests.kit.fake_broker import FakeBroker, HangUp
from tests.kit.raw_http import answer_of, raw_http
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

A_MOMENT = 0.1
"""Of a deadline that has to pass."""
FAMILIES = ("admin", "consumer", "metadata", "producer", "sasl")


def request_classes() -> list[Any]:
    """Every request that kafka-python knows, by api key."""
    modules = [importlib.import_module(f"kafka.protocol.{family}") for family in FAMILIES]
    found: dict[int, Any] = {}
    for one in itertools.chain.from_iterable(vars(module).values() for module in modules):
        if isinstance(one, type) and issubclass(one, ApiMessage) and is_request(one):
            found[api_key(one)] = one
    return [found[key] for key in sorted(found)]


def api_key(message_class: Any) -> int:
    return int(message_class.API_KEY)


def is_request(message_class: Any) -> bool:
    return message_class.__name__.endswith("Request") and message_class.API_KEY is not None


OWN_CLASSES = (ConsumerGroupDescribeRequest, DescribeShareGroupOffsetsRequest)
"""Reads that only the product itself describes."""
FORBIDDEN = [class_ for class_ in request_classes() if class_.API_KEY not in api_keys.READ]


def sender_to(
    *brokers: FakeBroker | Endpoint,
    allowed: frozenset[int] = api_keys.READ,
    security: ClientSecurity | None = None,
    **options: Any,
) -> Sender:
    servers = tuple(one.endpoint if isinstance(one, FakeBroker) else one for one in brokers)
    plain = ClientSecurity(ConnectionSettings(servers))
    options = {"client_id": "tests", "connect_seconds": DEADLINE_SECONDS, **options}
    return Sender(servers, security or plain, allowed, **options)


def ask(
    sender: Sender, broker: int = ANY_BROKER, seconds: float = DEADLINE_SECONDS, lane: str = ""
) -> Any:
    deadline = Deadline.after(seconds)
    return sender.call(
        broker, MetadataRequest(topics=[]), MetadataResponse, deadline, lane=lane, max_version=9
    )


def named(name: str) -> FakeBroker:
    """A broker that gives its name for the cluster id."""
    return FakeBroker().serve(MetadataRequest, lambda _: MetadataResponse(cluster_id=name))


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with named("here") as broker:
        yield broker


@pytest.fixture
def sender(broker: FakeBroker) -> Iterator[Sender]:
    """May read, through `broker`, which is broker 1."""
    with closing(sender_to(broker)) as sender:
        sender.learn([Broker(1, *broker.endpoint[:2])])
        yield sender


class TestTheAllowList:
    def test_reads_are_all_that_it_holds(self) -> None:
        """By name: an api that changes something has another verb."""
        names = {
            class_.API_KEY: class_.name.removesuffix("Request")
            for class_ in (*request_classes(), *OWN_CLASSES)
        }
        verbs = ("Describe", "List", "Find", "Metadata", "Fetch", "OffsetFetch")
        assert set(names) >= api_keys.READ
        reads = [names[key] for key in api_keys.READ]
        others = [name for name in reads if not name.startswith(verbs)]
        assert others == ["ConsumerGroupDescribe"]

    def test_nothing_else_leaves_not_even_a_connection(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        assert len(FORBIDDEN) > 30
        for request_class in FORBIDDEN:
            with pytest.raises(errors.ReadOnly):
                sender.call(ANY_BROKER, request_class(), MetadataResponse, ample())
        assert (broker.connected, broker.frames) == (0, 0)
        ask(sender)
        before = broker.frames
        with pytest.raises(errors.ReadOnly):
            sender.call(ANY_BROKER, ElectLeadersRequest(), MetadataResponse, ample())
        assert broker.frames == before


class TestConnections:
    def test_a_lane_that_hangs_delays_no_other(self, broker: FakeBroker, sender: Sender) -> None:
        broker.serve(DescribeQuorumRequest, lambda _: None)

        def hang() -> None:
            sender.call(
                1,
                DescribeQuorumRequest(topics=[]),
                DescribeQuorumResponse,
                Deadline.after(HOUR),
                lane="quorum",
            )

        hanging = aside(hang)
        broker.wait_for(lambda: len(broker.received) == 1, "the request that hangs")
        assert ask(sender, 1).cluster_id == "here"
        assert hanging.is_alive()
        sender.close()
        ended(hanging)

    def test_a_broken_request_is_not_sent_again(self, broker: FakeBroker, sender: Sender) -> None:
        def hang_up(_: Any) -> Any:
            raise HangUp

        broker.serve(MetadataRequest, hang_up)
        with pytest.raises(errors.ConnectFailed):
            ask(sender)
        assert len(broker.received) == 1

    def test_a_connection_that_the_broker_closed_while_idle_is_replaced_before_it_is_used(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        ask(sender)
        broker.drop_connections()
        broker.wait_for(lambda: broker.open == 0, "the connection to end")
        assert ask(sender).cluster_id == "here"
        assert broker.connected == 2

    def test_after_a_silence_the_late_answer_is_never_taken_for_the_next_one(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        ask(sender)
        given_up = threading.Event()

        def late(_: Any) -> Any:
            given_up.wait(DEADLINE_SECONDS)
            return MetadataResponse(cluster_id="late")

        broker.serve(MetadataRequest, late)
        with pytest.raises(errors.TimedOut):
            ask(sender, seconds=A_MOMENT)
        broker.serve(MetadataRequest, lambda _: MetadataResponse(cluster_id="second"))
        given_up.set()
        assert ask(sender).cluster_id == "second"
        assert broker.connected == 2

    def test_silence_is_kept_by_its_connection(self, broker: FakeBroker, sender: Sender) -> None:
        """KIP-219: giving up the wait must not lead around it."""
        broker.serve(MetadataRequest, lambda _: MetadataResponse(throttle_time_ms=3_600_000))
        ask(sender)
        for _ in range(2):
            with pytest.raises(errors.TimedOut):
                ask(sender)
        assert (len(broker.received), broker.connected) == (1, 1)

    def test_a_broker_without_address_is_named_with_the_remedy(self, sender: Sender) -> None:
        with pytest.raises(errors.ConnectFailed) as caught:
            ask(sender, 7)
        assert caught.value.reason == "no address known"
        assert "--broker-address 7=HOST:PORT" in str(caught.value)


def test_a_connection_that_was_being_opened_is_not_used_after_closing(
    broker: FakeBroker, sender: Sender
) -> None:
    """A hung broker that goes on later finds no request."""
    go_on = threading.Event()

    def late(_: Any) -> Any:
        go_on.wait(DEADLINE_SECONDS)
        version = ApiVersionsResponse.ApiVersion(api_key=3, max_version=9)
        return ApiVersionsResponse(api_keys=[version])

    broker.serve(ApiVersionsRequest, late)
    waiting = aside(lambda: ask(sender, 1, HOUR))
    broker.wait_for(lambda: broker.connected == 1, "the connection")
    sender.close()
    go_on.set()
    ended(waiting)
    broker.wait_for(lambda: broker.open == 0, "the connection to be closed")
    assert broker.received == []


@pytest.fixture
def login() -> ClientSecurity:
    sasl = SaslSettings("PLAIN", PasswordLogin("ann", Secret("secret")))
    servers, protocol = (Endpoint("127.0.0.1", 1),), SecurityProtocol.SASL_PLAINTEXT
    return ClientSecurity(ConnectionSettings(servers, security_protocol=protocol, sasl=sasl))


def offering(broker: FakeBroker, mechanism: str, **authenticated: Any) -> None:
    code = 0 if mechanism == "PLAIN" else 33
    handshake = SaslHandshakeResponse(error_code=code, mechanisms=[mechanism])
    broker.serve(SaslHandshakeRequest, lambda _: handshake)
    broker.serve(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(**authenticated))


@pytest.mark.parametrize(
    ("mechanism", "code", "said"),
    [("SCRAM-SHA-512", 0, "it offers SCRAM-SHA-512"), ("PLAIN", 58, "bad password")],
)
def test_a_login_that_is_refused_is_an_error_with_the_reason(
    broker: FakeBroker, login: ClientSecurity, mechanism: str, code: int, said: str
) -> None:
    offering(broker, mechanism, error_code=code, error_message="bad password")
    with (
        closing(sender_to(broker, security=login)) as sender,
        pytest.raises(errors.AuthenticationFailed, match=said),
    ):
        ask(sender)


@pytest.mark.parametrize("pieces", [[b"\x1b[2J no HTTP\r\n\r\n"], answer_of(b"[" * 100_000)])
def test_s40_a_provider_that_gives_no_token_is_named_in_place_of_the_broker(
    broker: FakeBroker, pieces: list[bytes]
) -> None:
    """The thread that connects ends with an error of ours, and not with a traceback."""
    broker.serve(
        SaslHandshakeRequest,
        lambda _: SaslHandshakeResponse(error_code=0, mechanisms=["OAUTHBEARER"]),
    )
    servers, protocol = (broker.endpoint,), SecurityProtocol.SASL_PLAINTEXT
    with raw_http(pieces) as (address, _):
        provider = TokenEndpoint(f"http://{address}/", "me", Secret("hush"), None, False, 300_000)
        sasl = SaslSettings("OAUTHBEARER", OAuthLogin(provider))
        security = ClientSecurity(
            ConnectionSettings(servers, security_protocol=protocol, sasl=sasl)
        )
        with (
            closing(sender_to(broker, security=security)) as sender,
            pytest.raises(errors.Unreachable, match=f"^the identity provider http://{address}/ "),
        ):
            ask(sender)


def test_a_session_about_to_end_is_left_for_a_new_connection(
    broker: FakeBroker, login: ClientSecurity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-368: the broker would cut it off."""
    monkeypatch.setattr(connection, "REAUTHENTICATE_AT", 0.0)
    offering(broker, "PLAIN", session_lifetime_ms=60_000)
    with closing(sender_to(broker, security=login)) as sender:
        ask(sender)
        ask(sender)
    assert broker.connected == 2


def aside(call: Callable[[], object]) -> threading.Thread:
    """Call in a thread of its own, whose end alone matters."""

    def swallow() -> None:
        with suppress(errors.TimedOut, errors.ConnectFailed):
            call()

    thread = threading.Thread(target=swallow, daemon=True)
    thread.start()
    return thread


def ended(thread: threading.Thread) -> None:
    wait_until(lambda: not thread.is_alive(), "the wait to end")


def test_s50_what_a_command_asks_ends_with_its_time_and_then_nothing_is_sent(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long each call may take, and although an error would be tried again."""
    clock, given = Clock(), list[Deadline]()
    call = connection.BrokerConnection.call

    def noted(self: Any, request: Any, answer: Any, deadline: Deadline, **more: Any) -> Any:
        given.append(deadline)
        return call(self, request, answer, deadline, **more)

    monkeypatch.setattr(connection.BrokerConnection, "call", noted)
    with closing(sender_to(broker)) as sender:
        until_then = Deadline.after(DEADLINE_SECONDS, clock)
        sender.finish_by(until_then)
        ask(sender, seconds=HOUR)
        assert given == [until_then]
        ask(sender, seconds=1)
        assert given[1].at < time.monotonic() + 1
        clock.advance(DEADLINE_SECONDS)
        frames = broker.frames
        for late in (
            lambda: until(ample(), lambda: ask(sender)),
            lambda: sender.prove(ANY_BROKER, ample()),
            lambda: sender.offers(ANY_BROKER, 3, ample()),
        ):
            with pytest.raises(errors.OutOfTime, match="--within"):
                late()
        assert broker.frames == frames


def test_s50_a_command_line_says_which_broker_has_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, said, speaking = Clock(), list[str](), threading.Event()
    waits = Waits(clock)
    monkeypatch.setattr(sender_module, "WAITS", waits)
    monkeypatch.setattr("breakglass.services.clock.WAITS", waits)

    def say(message: str) -> None:
        said.append(message)
        speaking.set()

    monkeypatch.setattr(output, "say", say)

    def answer(_: object) -> MetadataResponse:
        clock.advance(NOTICE_SECONDS)
        assert speaking.wait(DEADLINE_SECONDS)
        return MetadataResponse()

    with FakeBroker() as broker:
        broker.serve(MetadataRequest, answer)
        at = (broker.endpoint,)
        with closing(Sender(at, ClientSecurity(ConnectionSettings(at)), api_keys.READ)) as sender:
            sender.learn([Broker(7, at[0].host, at[0].port)])
            with output.waits_said():
                sender.call(7, MetadataRequest(), MetadataResponse, ample())
    assert len(said) == 1
    assert "b7" in said[0]
    assert waits.overdue() == []
