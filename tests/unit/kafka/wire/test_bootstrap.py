"""The race of the bootstrap servers: a hung or dead one costs a head start at most."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from breakglass.services import patience
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.sasl import PasswordLogin, SaslSettings
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings, SecurityProtocol
from breakglass.services.errors import AuthenticationFailed, ConnectFailed
from breakglass.services.kafka.wire.bootstrap import first_to_answer
from breakglass.services.kafka.wire.connection import BrokerConnection
from breakglass.services.kafka.wire.deadline import Deadline
from tests.kit.fake_broker import FakeBroker
from tests.kit.waiting import wait_until, within

PATIENCE = 10.0
SLACK = 1.0
"""What a busy machine may add to a wait."""


@pytest.fixture
def brokers() -> Iterator[list[FakeBroker]]:
    """Two that answer."""
    with FakeBroker() as one, FakeBroker() as another:
        yield [one, another]


@pytest.fixture
def hung() -> Iterator[Endpoint]:
    """A listener whose process is stopped: the system connects, nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Endpoint(*listener.getsockname()[:2])


@pytest.fixture
def dead() -> Endpoint:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Endpoint(*listener.getsockname()[:2])


def plain(server: Endpoint, deadline: Deadline) -> BrokerConnection:
    return BrokerConnection(
        server, ClientSecurity(ConnectionSettings((server,))), "tests", deadline
    )


def race(*servers: Endpoint, seconds: float = PATIENCE) -> Endpoint:
    winner, connection = first_to_answer(servers, plain, Deadline.after(seconds))
    connection.close()
    return winner


def test_the_first_wins_when_all_is_well_and_the_others_are_left_alone(
    brokers: list[FakeBroker],
) -> None:
    first, second = brokers
    assert race(first.endpoint, second.endpoint) == first.endpoint
    assert second.connected == 0


def test_a_hung_first_server_costs_a_head_start(hung: Endpoint, brokers: list[FakeBroker]) -> None:
    began = time.monotonic()
    assert race(hung, brokers[0].endpoint) == brokers[0].endpoint
    assert patience.HEAD_START <= time.monotonic() - began < patience.HEAD_START + within(SLACK)


def test_a_dead_first_server_costs_nothing(dead: Endpoint, brokers: list[FakeBroker]) -> None:
    began = time.monotonic()
    assert race(dead, brokers[0].endpoint) == brokers[0].endpoint
    assert time.monotonic() - began < patience.HEAD_START


def test_several_hung_servers_cost_a_head_start_each(
    hung: Endpoint, brokers: list[FakeBroker]
) -> None:
    began = time.monotonic()
    assert race(hung, hung._replace(host="localhost"), brokers[0].endpoint) == brokers[0].endpoint
    assert time.monotonic() - began < 2 * patience.HEAD_START + within(SLACK)


def test_when_none_answers_each_is_named_with_what_it_said(hung: Endpoint, dead: Endpoint) -> None:
    began = time.monotonic()
    with pytest.raises(ConnectFailed) as caught:
        race(hung, dead, seconds=0.6)
    assert time.monotonic() - began < 0.6 + within(SLACK)
    assert str(caught.value).startswith("no bootstrap server answers: ")
    for server in (hung, dead):
        assert str(server) in str(caught.value)
    assert "Connection refused" in str(caught.value)


def test_a_late_answer_finds_its_connection_closed(brokers: list[FakeBroker]) -> None:
    """The first was slow, the second won: the first's connection is not left open."""
    slow, quick = brokers
    answer = threading.Event()

    def late(_: object) -> ApiVersionsResponse:
        answer.wait(PATIENCE)
        return ApiVersionsResponse()

    slow.serve(ApiVersionsRequest, late)
    winner, connection = first_to_answer(
        (slow.endpoint, quick.endpoint), plain, Deadline.after(PATIENCE)
    )
    with closing(connection):
        assert winner == quick.endpoint
        answer.set()
        slow.wait_for(lambda: slow.open == 0, "the late connection to be closed")
        assert quick.open == 1


def test_of_two_that_answer_at_the_same_moment_one_is_closed(brokers: list[FakeBroker]) -> None:
    both = threading.Barrier(2)

    def together(server: Endpoint, deadline: Deadline) -> BrokerConnection:
        connection = plain(server, deadline)
        both.wait(PATIENCE)
        return connection

    for _ in range(5):
        _, connection = first_to_answer(
            [broker.endpoint for broker in brokers], together, Deadline.after(PATIENCE)
        )
        wait_until(lambda: sum(broker.open for broker in brokers) == 1, "the loser to be closed")
        connection.close()
        wait_until(lambda: sum(broker.open for broker in brokers) == 0, "both to be closed")


def test_rejected_credentials_are_told_as_such_when_nobody_takes_them() -> None:
    settings = ConnectionSettings(
        (Endpoint("127.0.0.1", 1),),
        security_protocol=SecurityProtocol.SASL_PLAINTEXT,
        sasl=SaslSettings("PLAIN", PasswordLogin("ann", Secret("wrong"))),
    )

    def connect(server: Endpoint, deadline: Deadline) -> BrokerConnection:
        return BrokerConnection(server, ClientSecurity(settings), "tests", deadline)

    with ExitStack() as stack:
        servers = []
        for _ in range(2):
            broker = stack.enter_context(FakeBroker())
            broker.serve(
                SaslHandshakeRequest, lambda _: SaslHandshakeResponse(mechanisms=["PLAIN"])
            )
            broker.serve(
                SaslAuthenticateRequest,
                lambda _: SaslAuthenticateResponse(error_code=58, error_message="bad password"),
            )
            servers.append(broker.endpoint)
        with pytest.raises(AuthenticationFailed, match="bad password"):
            first_to_answer(servers, connect, Deadline.after(PATIENCE))
