"""A relay on loopback: clients that connect to advertised names reach brokers as Breakglass does.

The relay has a port for each broker, and rewrites the addresses in answers to those ports. Towards
brokers it is the session's own sender: its addresses, TLS, SASL login and allow-list. Towards its
clients it speaks plaintext on 127.0.0.1, and wants a password that only this process has: otherwise
any user of this machine could send requests under the name of the one who logged in.

One client of the relay: its login, what it is offered, and its requests, one after the other.

A broker serves the requests of one connection in order, so nothing is lost by passing on one
request at a time. Between two requests the connection to the broker can be replaced, as when its
SASL session ends: the client does not notice.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from breakglass.services import patience
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.sasl import PasswordLogin, SaslSettings
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import ConnectionSettings, SecurityProtocol
from breakglass.services.errors import BreakglassError, ConnectFailed, MalformedMessage
from breakglass.services.kafka.relay.rewriting import at_version_0, passable, rewritten
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.connection import BrokerConnection
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.frames import SIZE
from breakglass.services.kafka.wire.passing import (
    API_VERSIONS,
    Head,
    answer_frame,
    expects_answer,
    parse_head,
    read_frame,
    request_body,
)
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.snapshot import Broker

USER = "breakglass"
MECHANISM = "PLAIN"
SASL_HANDSHAKE = 17
SASL_AUTHENTICATE = 36
UNSUPPORTED_SASL_MECHANISM = 33
UNSUPPORTED_VERSION = 35
SASL_AUTHENTICATION_FAILED = 58
OWN_VERSIONS = {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
"""What the relay answers itself; librdkafka wants both versions of the handshake."""
NEEDED = frozenset({api_keys.PRODUCE})
"""Offered even where it is refused: librdkafka takes a broker without it for one of before 0.11."""
STRANGERS_BYTES = 4096
"""The largest frame of a client that has not logged in."""

Moved = Callable[[int, str, int], tuple[str, int]]


class RelayedClient:
    """A thread that serves one connection to the port of *broker*."""

    def __init__(
        self,
        sock: socket.socket,
        broker: int,
        sender: Sender,
        password: Secret,
        moved: Moved,
        gone: Callable[[RelayedClient], None],
    ) -> None:
        self._socket = sock
        self._broker = broker
        self._sender = sender
        self._password = password
        self._moved = moved
        self._gone = gone
        self._upstream: BrokerConnection | None = None
        self._known = False
        self._login_by = Deadline.after(patience.CONNECT)
        self._ended = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="relayed", daemon=True)

    def start(self) -> None:
        """Serve the client from now on."""
        self._thread.start()

    def end(self) -> None:
        """Break both connections, and wait for the thread."""
        with self._lock:
            self._ended = True
            if self._upstream is not None:
                self._upstream.close()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        # A look-up of a name cannot be ended: such a thread is left to itself, and sends nothing.
        self._thread.join(patience.LOOK)

    def _run(self) -> None:
        # Whichever side fails, the client's connection is closed, as a broker closes it.
        with self._socket:
            try:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while self._serve_next():
                    pass
            except (OSError, BreakglassError, struct.error, ValueError):
                pass
            finally:
                if self._upstream is not None:
                    self._upstream.close()
                self._gone(self)

    def _serve_next(self) -> bool:
        """Serve one request; False when the client has closed its connection."""
        frame = (
            read_frame(self._socket)
            if self._known
            else read_frame(self._socket, STRANGERS_BYTES, self._login_by)
        )
        if frame is None:
            return False
        head = parse_head(frame)
        answer: bytes | memoryview | None
        if head.api_key == API_VERSIONS:
            answer = self._offers(head)
        elif head.api_key in OWN_VERSIONS:
            answer = self._login(head, frame)
        elif self._known:
            answer = self._passed(head, frame)
        else:
            raise MalformedMessage("a client of the relay has to log in first")
        if answer is not None:
            self._socket.sendall(SIZE.pack(len(answer)) + answer)
        return self._known or head.api_key != SASL_AUTHENTICATE

    def _offers(self, head: Head) -> bytes:
        """What the broker offers, as far as the relay passes it on."""
        from kafka.protocol.metadata import ApiVersionsResponse

        if head.api_version > ApiVersionsResponse.max_version:
            refusal = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION)
            return answer_frame(at_version_0(head), refusal)
        offered = {
            **passable(self._reached().api_versions, self._sender.allowed | NEEDED),
            **OWN_VERSIONS,
            API_VERSIONS: (0, ApiVersionsResponse.max_version),
        }
        answer = ApiVersionsResponse(error_code=0, throttle_time_ms=0)
        answer.api_keys = [
            answer.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(offered.items())
        ]
        return answer_frame(head, answer)

    def _login(self, head: Head, frame: bytes) -> bytes:
        from kafka.protocol.sasl import (
            SaslAuthenticateRequest,
            SaslAuthenticateResponse,
            SaslHandshakeRequest,
            SaslHandshakeResponse,
        )

        # After a handshake of version 0 the login would have no frames of Kafka's.
        lowest = 1 if head.api_key == SASL_HANDSHAKE else 0
        if not lowest <= head.api_version <= OWN_VERSIONS[head.api_key][1]:
            raise MalformedMessage("the relay does not speak this version of SASL")
        if head.api_key == SASL_HANDSHAKE:
            asked = request_body(SaslHandshakeRequest, head.api_version, frame[head.end :])
            error = 0 if asked.mechanism == MECHANISM else UNSUPPORTED_SASL_MECHANISM
            return answer_frame(
                head, SaslHandshakeResponse(error_code=error, mechanisms=[MECHANISM])
            )
        asked = request_body(SaslAuthenticateRequest, head.api_version, frame[head.end :])
        self._known = _right(bytes(asked.auth_bytes), self._password)
        if self._known:
            self._socket.settimeout(None)
        return answer_frame(head, _verdict(SaslAuthenticateResponse, known=self._known))

    def _passed(self, head: Head, frame: bytes) -> bytes | memoryview | None:
        upstream = self._reached()
        offered = passable(upstream.api_versions, frozenset({head.api_key}))
        low, high = offered.get(head.api_key, (0, -1))
        if not low <= head.api_version <= high:
            raise MalformedMessage(f"api {head.api_key} v{head.api_version} was not offered")
        answer = self._sender.pass_on(
            upstream,
            head,
            frame,
            Deadline.after(patience.RELAYED),
            answered=expects_answer(head, frame),
        )
        return None if answer is None else rewritten(head, answer, self._moved)

    def _reached(self) -> BrokerConnection:
        """The connection to the broker; a new one when the former one is worn."""
        upstream = self._upstream
        if upstream is not None and not (upstream.expired or upstream.abandoned):
            return upstream
        if upstream is not None:
            upstream.close()
        made = self._sender.open_connection(self._broker, Deadline.after(patience.CONNECT))
        with self._lock:
            self._upstream = made
            if self._ended:
                made.close()
        return made


def _right(given: bytes, password: Secret) -> bool:
    """Whether *given*, the token of PLAIN (RFC 4616), has the relay's user and password."""
    _, _, own = given.partition(b"\0")
    return hmac.compare_digest(own, f"{USER}\0{password.reveal()}".encode())


def _verdict(response_class: Any, *, known: bool) -> Any:
    return response_class(
        error_code=0 if known else SASL_AUTHENTICATION_FAILED,
        error_message=None if known else "this relay serves the process that began it",
        auth_bytes=b"",
        session_lifetime_ms=0,
    )


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

    def __exit__(self, *_: object) -> None:
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
