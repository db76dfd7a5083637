"""The race of the bootstrap servers, and the end of waits for connections being opened."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from breakglass.services import errors, patience
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.bootstrap import first_to_answer
from breakglass.services.kafka.wire.connection import BrokerConnection
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from tests.kit.clock import Clock
from tests.kit.deadlines import HOUR, ample
from tests.kit.fake_broker import FakeBroker
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

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


def test_the_first_wins_and_the_others_are_left_alone(brokers: list[FakeBroker]) -> None:
    first, second = brokers
    assert race(first.endpoint, second.endpoint) == first.endpoint
    assert second.connected == 0


@pytest.mark.usefixtures("short_head_start")
@pytest.mark.parametrize("count", [1, 2])
def test_hung_servers_cost_a_head_start_each_and_stay_hung_meanwhile(
    hung: Endpoint, brokers: list[FakeBroker], count: int
) -> None:
    silent = (hung, hung._replace(host="localhost"))[:count]
    assert race(*silent, brokers[0].endpoint) == brokers[0].endpoint


def test_a_dead_first_server_costs_not_even_a_head_start(
    dead: Endpoint, brokers: list[FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "HEAD_START", HOUR)
    assert race(dead, brokers[0].endpoint) == brokers[0].endpoint


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


@pytest.mark.usefixtures("short_head_start")
def test_when_none_answers_each_is_named_with_its_error(hung: Endpoint, dead: Endpoint) -> None:
    clock = Clock()

    def connect(server: Endpoint, _: Deadline) -> BrokerConnection:
        try:
            return plain(server, ample())
        finally:
            clock.advance(HOUR)

    with pytest.raises(errors.ConnectFailed) as caught:
        first_to_answer((hung, dead), connect, Deadline.after(HOUR, clock))
    assert f"{hung} is silent" in str(caught.value)
    assert f"{dead} cannot be spoken to" in str(caught.value)


@pytest.mark.usefixtures("short_head_start")
def test_of_two_that_answer_at_the_same_moment_one_is_closed(brokers: list[FakeBroker]) -> None:
    both = threading.Barrier(2)

    def together(server: Endpoint, deadline: Deadline) -> BrokerConnection:
        connection = plain(server, deadline)
        both.wait(DEADLINE_SECONDS)
        return connection

    for _ in range(5):
        _, connection = first_to_answer([broker.endpoint for broker in brokers], together, ample())
        wait_until(lambda: sum(broker.open for broker in brokers) == 1, "the loser to be closed")
        connection.close()
        wait_until(lambda: sum(broker.open for broker in brokers) == 0, "both to be closed")


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
