"""A relay on loopback: clients that connect to advertised names reach brokers as Breakglass does.

The relay has a port for each broker, and rewrites the addresses in answers to those ports. Towards
brokers it is the session's own sender: its addresses, TLS, SASL login and allow-list. Towards its
clients it speaks plaintext on 127.0.0.1, and wants a password that only this process has: otherwise
any user of this machine could send requests under the name of the one who logged in.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading
from dataclasses import replace
from types import TracebackType
from typing import Self

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.sasl import PasswordLogin, SaslSettings
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import ConnectionSettings, SecurityProtocol
from breakglass.services.errors import ConnectFailed
from breakglass.services.kafka.relay.client import MECHANISM, USER, RelayedClient
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.snapshot import Broker

LOOPBACK = "127.0.0.1"
BACKLOG = 128
MOST_BROKERS = 10_000
"""More brokers in an answer are not believed: each takes a port of this machine."""
MOST_CLIENTS = 512
"""Connections at the same time; a further one is closed at once."""


class LoopbackRelay:
    """Relays what clients send to the brokers that *sender* reaches, until it is closed.

    A context manager. Closing it ends every connection and then closes *sender*.
    """

    def __init__(self, sender: Sender) -> None:
        self.password = Secret(secrets.token_urlsafe(32))
        self._sender = sender
        self._ports: dict[int, Endpoint] = {}
        self._listeners: list[socket.socket] = []
        self._clients: set[RelayedClient] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._accepting = selectors.DefaultSelector()
        self._wake, woken = socket.socketpair()
        self._accepting.register(woken, selectors.EVENT_READ, None)
        self._woken = woken
        self._thread = threading.Thread(target=self._accept, name="relay", daemon=True)
        self.bootstrap = self._port(ANY_BROKER)
        """Where clients connect first."""
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every connection, and wait for the threads; without effect when closed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            clients = list(self._clients)
        self._sender.close()
        self._wake.close()
        self._thread.join()
        for client in clients:
            client.end()
        for listener in self._listeners:
            listener.close()

    def settings(self, settings: ConnectionSettings) -> ConnectionSettings:
        """*settings*, changed so that a client of this process connects to the relay."""
        return replace(
            settings,
            bootstrap_servers=(self.bootstrap,),
            security_protocol=SecurityProtocol.SASL_PLAINTEXT,
            tls=None,
            sasl=SaslSettings(MECHANISM, PasswordLogin(USER, self.password)),
            broker_addresses={},
            listener=None,
        )

    def moved(self, broker: int, host: str, port: int) -> tuple[str, int]:
        """Where clients reach *broker*, which advertises *host* and *port*.

        Raises:
            ConnectFailed: no port can be opened for it.
        """
        self._sender.learn([Broker(broker, host, port)])
        address = self._port(broker)
        return address.host, address.port

    def _port(self, broker: int) -> Endpoint:
        with self._lock:
            known = self._ports.get(broker)
            if known is not None:
                return known
            if self._closed or len(self._ports) > MOST_BROKERS:
                raise ConnectFailed(f"the relay has no port for b{broker}: start again")
            try:
                listener = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
            except OSError as error:
                raise ConnectFailed(
                    f"no port can be opened on {LOOPBACK} ({error.strerror}): free some"
                ) from error
            self._listeners.append(listener)
            self._ports[broker] = Endpoint(*listener.getsockname()[:2])
            self._accepting.register(listener, selectors.EVENT_READ, broker)
        return self._ports[broker]

    def _accept(self) -> None:
        """In a thread: welcome clients on every port until the relay is closed."""
        with self._accepting, self._woken:
            while True:
                ready = self._accepting.select()
                if any(key.data is None for key, _ in ready):
                    return
                for key, _ in ready:
                    assert isinstance(key.fileobj, socket.socket)
                    with contextlib.suppress(OSError):
                        self._welcome(key.fileobj.accept()[0], key.data)

    def _welcome(self, sock: socket.socket, broker: int) -> None:
        client = RelayedClient(sock, broker, self._sender, self.password, self.moved, self._gone)
        with self._lock:
            if self._closed or len(self._clients) >= MOST_CLIENTS:
                sock.close()
                return
            self._clients.add(client)
        client.start()

    def _gone(self, client: RelayedClient) -> None:
        with self._lock:
            self._clients.discard(client)
