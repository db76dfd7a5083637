"""The relay on loopback: who gets in, what passes, which addresses its clients see."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from breakglass.services.connection.sasl import PasswordLogin, SaslSettings
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import AuthenticationFailed, BreakglassError, Unreachable
from breakglass.services.kafka.relay.relay import MOST_BROKERS, LoopbackRelay
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.snapshot import Broker
from tests.kit.deadlines import ample
from tests.kit.fake_broker import FakeBroker
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

HIDDEN = "broker.hidden.invalid"
EVERYTHING = api_keys.READ | api_keys.RECORDS
Brokers = tuple[FakeBroker, FakeBroker]


def node(broker: int, host: str = HIDDEN, port: int = 9092) -> Any:
    return MetadataResponse.MetadataResponseBroker(node_id=broker, host=host, port=port, rack=None)


def metadata(*nodes: Any) -> MetadataResponse:
    return MetadataResponse(brokers=list(nodes), cluster_id="c", controller_id=1, topics=[])


def offsets(_: Any) -> ListOffsetsResponse:
    return ListOffsetsResponse(throttle_time_ms=0, topics=[])


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    """Brokers 1 and 2, each of which advertises a name that does not resolve."""
    with FakeBroker() as first, FakeBroker() as second:
        for broker in (first, second):
            broker.serve(MetadataRequest, lambda _: metadata(node(1), node(2)))
            broker.serve(ListOffsetsRequest, offsets)
        yield first, second


def sender_to(
    brokers: tuple[FakeBroker, ...], allowed: frozenset[int], settings: ConnectionSettings
) -> Sender:
    addresses = {id: broker.endpoint for id, broker in enumerate(brokers, 1)}
    bootstrap = (brokers[0].endpoint,)
    return Sender(
        bootstrap,
        ClientSecurity(settings),
        allowed,
        broker_addresses=addresses,
        connect_seconds=DEADLINE_SECONDS,
    )


@contextmanager
def relayed(
    *brokers: FakeBroker, allowed: frozenset[int] = api_keys.READ, sasl: SaslSettings | None = None
) -> Iterator[tuple[LoopbackRelay, Sender]]:
    """A relay to *brokers*, and a client of it."""
    settings = ConnectionSettings((brokers[0].endpoint,), sasl=sasl)
    with (
        LoopbackRelay(sender_to(brokers, allowed, settings)) as relay,
        closing(client(relay)) as made,
    ):
        yield relay, made


def client(relay: LoopbackRelay, password: Secret | None = None) -> Sender:
    """A client that knows nothing but the relay's settings."""
    settings = relay.settings(ConnectionSettings(()))
    if password is not None:
        settings = replace(
            settings, sasl=SaslSettings("PLAIN", PasswordLogin("breakglass", password))
        )
    return Sender(settings.bootstrap_servers, ClientSecurity(settings), EVERYTHING)


def ask(sender: Sender, request: Any, response: Any, broker: int = ANY_BROKER) -> Any:
    return sender.call(broker, request, response, ample())


def seen_by(sender: Sender) -> dict[int, tuple[str, int]]:
    answer = ask(sender, MetadataRequest(topics=[]), MetadataResponse)
    return {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}


def test_each_broker_is_reached_by_the_port_that_stands_for_its_name(
    brokers: Brokers,
) -> None:
    with relayed(*brokers) as (_, sender):
        seen = seen_by(sender)
        assert {host for host, _ in seen.values()} == {"127.0.0.1"}
        assert len({port for _, port in seen.values()}) == 2
        sender.learn([Broker(id, *address) for id, address in seen.items()])
        for id in (1, 2):
            ask(sender, ListOffsetsRequest(topics=[]), ListOffsetsResponse, id)
    for broker in brokers:
        assert [asked.api_key for asked in broker.received].count(api_keys.LIST_OFFSETS) == 1


def test_a_coordinator_is_reached_by_its_port_and_none_stays_none(
    brokers: Brokers,
) -> None:
    def coordinators(_: Any) -> FindCoordinatorResponse:
        made = FindCoordinatorResponse.Coordinator
        one = {"error_code": 0, "error_message": None}
        return FindCoordinatorResponse(
            throttle_time_ms=0,
            coordinators=[
                made(key="a", node_id=2, host=HIDDEN, port=9092, **one),
                made(key="b", node_id=-1, host="", port=-1, **one),
            ],
        )

    brokers[0].serve(FindCoordinatorRequest, coordinators, (4, 4))
    with relayed(*brokers) as (_, sender):
        seen = seen_by(sender)
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
        first, second = ask(sender, request, FindCoordinatorResponse).coordinators
    assert (first.host, first.port) == seen[2]
    assert (second.host, second.port) == ("", -1)


def test_a_wrong_password_opens_nothing(brokers: Brokers) -> None:
    with (
        relayed(*brokers) as (relay, _),
        closing(client(relay, Secret("guessed"))) as stranger,
        pytest.raises(AuthenticationFailed),
    ):
        seen_by(stranger)
    assert brokers[0].received == []


def test_without_a_login_no_request_passes(brokers: Brokers) -> None:
    with relayed(*brokers) as (relay, _):
        security = ClientSecurity(ConnectionSettings((relay.bootstrap,)))
        with (
            closing(Sender((relay.bootstrap,), security, EVERYTHING)) as stranger,
            pytest.raises(Unreachable),
        ):
            seen_by(stranger)
    assert brokers[0].received == []


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", 5_000),
        struct.pack(">i", -1),
        struct.pack(">i", 4) + b"\xff" * 4,
        struct.pack(">ihhih", 10, 17, 0, 1, -1),
        struct.pack(">ihhih", 10, 36, 9, 1, -1),
    ],
    ids=["large", "negative", "no header", "raw SASL", "unknown version"],
)
def test_what_a_stranger_sends_ends_its_own_connection(brokers: Brokers, sent: bytes) -> None:
    with relayed(*brokers) as (relay, sender):
        seen_by(sender)
        with socket.create_connection(
            (relay.bootstrap.host, relay.bootstrap.port), DEADLINE_SECONDS
        ) as raw:
            raw.sendall(sent)
            assert raw.recv(100) == b""
        assert len(seen_by(sender)) == 2


def test_a_stranger_that_takes_its_time_is_closed_in_the_middle_of_a_frame(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.services.patience.CONNECT", 0.5)
    with relayed(*brokers) as (relay, _):
        address = relay.bootstrap.host, relay.bootstrap.port
        with socket.create_connection(address, DEADLINE_SECONDS) as raw:
            raw.sendall(struct.pack(">i", 4_000))
            wait_until(lambda: not _taken(raw), "the connection to be closed", every=0.1)


def _taken(raw: socket.socket) -> bool:
    """Whether the other side still takes a byte."""
    try:
        return raw.send(b"x") == 1
    except OSError:
        return False


def test_what_a_reader_writes_does_not_pass(brokers: Brokers) -> None:
    produced = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1, topic_data=[])
    brokers[0].serve(ProduceRequest, lambda _: ProduceResponse(responses=[], throttle_time_ms=0))
    with relayed(*brokers) as (_, sender), pytest.raises(Unreachable):
        ask(sender, produced, ProduceResponse)
    assert [asked.api_key for asked in brokers[0].received] == []
    with relayed(*brokers, allowed=EVERYTHING) as (_, sender):
        ask(sender, produced, ProduceResponse)
        offered = sender.offers(ANY_BROKER, api_keys.PRODUCE, ample())
        # Later answers name a new leader's address, which the relay would not rewrite.
        assert offered is not None
        assert offered[1] == 9


def test_too_many_brokers_are_refused(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_BROKERS >= 1_000
    monkeypatch.setattr("breakglass.services.kafka.relay.relay.MOST_BROKERS", 20)
    brokers[0].serve(MetadataRequest, lambda _: metadata(*map(node, range(50))))
    with relayed(*brokers) as (_, sender), pytest.raises(Unreachable):
        seen_by(sender)


def test_the_session_of_a_login_ends_and_the_client_does_not_notice(
    brokers: Brokers,
) -> None:
    first = brokers[0]
    first.serve(
        SaslHandshakeRequest,
        lambda _: SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]),
        (0, 1),
    )
    first.serve(
        SaslAuthenticateRequest,
        lambda _: SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=1
        ),
        (0, 2),
    )
    login = SaslSettings("PLAIN", PasswordLogin("ops", Secret("hush")))
    with relayed(first, sasl=login) as (_, sender):
        slot = sender._slot(ANY_BROKER, "")
        seen_by(sender)
        mine, theirs = slot._connection, first.connected
        wait_until(lambda: seen_by(sender) and first.connected > theirs, "a new connection")
        assert slot._connection is mine
    logins = [asked for asked in first.received if asked.api_key == 36]
    assert {asked.message.auth_bytes for asked in logins} == {b"ops\0ops\0hush"}


def test_the_end_of_the_relay_ends_a_client_that_waits(
    brokers: Brokers,
) -> None:
    with relayed(*brokers) as (relay, sender):
        seen_by(sender)
        brokers[0].hung = True
        ended: list[BaseException] = []

        def wait() -> None:
            try:
                ask(sender, MetadataRequest(topics=[]), MetadataResponse)
            except BreakglassError as error:
                ended.append(error)

        frames = brokers[0].frames
        threading.Thread(target=wait, daemon=True).start()
        wait_until(lambda: brokers[0].frames > frames, "the request to arrive")
        relay.close()
        wait_until(lambda: ended, "the wait to end")
        assert isinstance(ended[0], Unreachable)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((relay.bootstrap.host, relay.bootstrap.port), DEADLINE_SECONDS)
