"""Closing a session ends the waits for connections that are only being opened."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from tests.kit.fake_broker import FakeBroker
from tests.kit.waiting import wait_until

PATIENCE = 10.0
AT_ONCE = 1.0
METADATA = 3


@pytest.fixture
def hung() -> Iterator[Endpoint]:
    """A broker that takes connections and never answers, as one that is stopped."""
    with FakeBroker() as broker:
        broker.hung = True
        yield broker.endpoint


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
def test_whoever_waits_for_a_connection_is_told_when_the_session_closes(
    address: str, request: pytest.FixtureRequest
) -> None:
    broker: Endpoint = request.getfixturevalue(address)
    sender = sender_to(broker)
    ended: list[BreakglassError] = []
    waiting = threading.Thread(target=wait_for_connection, args=(sender, ended), daemon=True)
    waiting.start()
    wait_until_opening(sender)
    before = time.monotonic()
    sender.close()
    waiting.join(PATIENCE)
    assert time.monotonic() - before < AT_ONCE
    assert len(ended) == 1


def test_nothing_is_opened_any_more_once_the_session_is_closed(hung: Endpoint) -> None:
    sender = sender_to(hung)
    sender.close()
    ended: list[BreakglassError] = []
    wait_for_connection(sender, ended)
    assert "this session is closing" in str(ended[0])


def sender_to(broker: Endpoint) -> Sender:
    security = ClientSecurity(ConnectionSettings((broker,)))
    return Sender((broker,), security, api_keys.READ, broker_addresses={1: broker})


def wait_for_connection(sender: Sender, ended: list[BreakglassError]) -> None:
    try:
        sender.offers(1, METADATA, Deadline.after(PATIENCE))
    except BreakglassError as error:
        ended.append(error)


def wait_until_opening(sender: Sender) -> None:
    wait_until(lambda: sender._opening._sockets, "a connection to be begun", every=0.005)
    # What is known to be begun is in its wait a moment later.
    threading.Event().wait(0.05)
