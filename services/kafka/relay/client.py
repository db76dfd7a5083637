"""One client of the relay: its login, what it is offered, and its requests, one after the other.

A broker serves the requests of one connection in order, so nothing is lost by passing on one
request at a time. Between two requests the connection to the broker can be replaced, as when its
SASL session ends: the client does not notice.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from breakglass.services import patience
from breakglass.services.connection.secret import Secret
from breakglass.services.errors import BreakglassError, MalformedMessage
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
from breakglass.services.kafka.wire.sender import Sender

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
