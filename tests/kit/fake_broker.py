"""A broker made of one function for each api: real sockets, framed Kafka, answers as told.

For what a real broker is too well-behaved to do: answers that are late, torn, partial, out of
order or not Kafka's at all. Messages are kafka-python's schema classes.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire.passing import (
    API_VERSIONS,
    Head,
    answer_frame,
    parse_head,
    read_frame,
    request_body,
    send_frame,
)
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

Reply = Any
"""A response message; `Raw` or `Body` bytes; None for silence. `HangUp` is raised instead."""
Respond = Callable[[Any], Reply]


class HangUp(Exception):
    """Raised by a responder: the connection is closed in place of an answer."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes to be sent as they are; a frame's length included, or meant to be wrong."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """Any bytes as the body of an otherwise proper answer."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Api:
    """An api that the broker offers."""

    request_class: Any
    respond: Respond
    versions: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Received:
    """A request that came."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Any
    """Decoded; None for an api that is not offered."""
    connection: int
    """Connections are numbered from 1."""
    at: float
    """time.monotonic()."""


class FakeBroker:
    """Listens on loopback once constructed; a context manager that ends its threads.

    ApiVersions is answered with what `serve` was told, unless that is replaced too. Requests
    of other apis are received, and answered by closing the connection, as brokers do.
    """

    def __init__(self) -> None:
        self._apis: dict[int, Api] = {}
        self._received: list[Received] = []
        self._news = threading.Condition()
        self._connections: list[socket.socket] = []
        self._open = 0
        self._hang_up: Callable[[], object] | None = None
        self._stopped = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.endpoint = Endpoint(*self._listener.getsockname()[:2])
        self.version_errors: list[int] = []
        """Error codes for the next ApiVersions requests."""
        self.hung = False
        """Requests are received and never answered, as by a process that is stopped."""
        self._threads[0].start()

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def serve(
        self, request_class: Any, respond: Respond, versions: tuple[int, int] | None = None
    ) -> FakeBroker:
        """Offer an api, in every version that the schema has by default."""
        offered = versions or (request_class.min_version, request_class.max_version)
        self._apis[request_class.API_KEY] = Api(request_class, respond, offered)
        return self

    def serve_all(self, apis: Mapping[Any, Respond]) -> FakeBroker:
        """`serve` each of *apis*, by request class."""
        for request_class, respond in apis.items():
            self.serve(request_class, respond)
        return self

    def hang(self, until: Callable[[], object]) -> None:
        """Be `hung`, and hang up on those who wait once it is *until*.

        So a peer that hangs ends by what another peer did, and not by a deadline of both.
        """
        self.hung, self._hang_up = True, until

    @property
    def received(self) -> list[Received]:
        """Every request so far but ApiVersions, oldest first."""
        with self._news:
            return [received for received in self._received if received.api_key != API_VERSIONS]

    @property
    def frames(self) -> int:
        """How many requests came, ApiVersions included."""
        with self._news:
            return len(self._received)

    @property
    def connected(self) -> int:
        """How many connections were ever accepted."""
        with self._news:
            return len(self._connections)

    @property
    def open(self) -> int:
        """How many connections are open."""
        with self._news:
            return self._open

    def requests(self, request_class: Any) -> list[Any]:
        """The requests of one api, decoded."""
        return [
            received.message
            for received in self.received
            if received.api_key == request_class.API_KEY
        ]

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until *condition* holds; it is looked at whenever something comes."""
        with self._news:
            assert self._news.wait_for(condition, DEADLINE_SECONDS), f"waited in vain for {what}"

    def drop_connections(self) -> None:
        """Close every connection from this side."""
        with self._news:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Refuse connections and end those there are; stopping twice does nothing."""
        self._stopped = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._news:
                self._connections.append(connection)
                self._open += 1
                number = len(self._connections)
                self._news.notify_all()
            thread = threading.Thread(target=self._serve, args=(connection, number), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection:
            try:
                while (frame := read_frame(connection)) is not None:
                    head = parse_head(frame)
                    self._answer(connection, head, self._receive(head, frame, number))
            except (OSError, HangUp, MalformedMessage):
                pass
        with self._news:
            self._open -= 1
            self._news.notify_all()

    def _receive(self, head: Head, frame: bytes, number: int) -> Received:
        api = self._apis.get(head.api_key)
        message = None
        if api is not None:
            message = request_body(api.request_class, head.api_version, frame[head.end :])
        received = Received(
            head.api_key,
            head.api_version,
            head.correlation_id,
            head.client_id,
            message,
            number,
            time.monotonic(),
        )
        with self._news:
            self._received.append(received)
            self._news.notify_all()
        return received

    def _answer(self, connection: socket.socket, head: Head, received: Received) -> None:
        api = self._apis.get(head.api_key)
        if self.hung:
            hang_up = self._hang_up
            if hang_up is not None:
                wait_until(lambda: self._stopped or hang_up(), "the end of a hang")
                raise HangUp
            return
        if api is not None:
            reply = api.respond(received.message)
        elif head.api_key == API_VERSIONS:
            reply = self._versions(self.version_errors.pop(0) if self.version_errors else 0)
            # A refused version is answered in the oldest (KIP-511).
            head = replace(head, api_version=0) if reply.error_code else head
        else:
            raise HangUp
        if isinstance(reply, Raw):
            connection.sendall(reply.data)
        elif isinstance(reply, Body):
            send_frame(connection, struct.pack(">i", head.correlation_id) + reply.data)
        elif reply is not None:
            send_frame(connection, answer_frame(head, reply))

    def _versions(self, code: int) -> Any:
        from kafka.protocol.metadata import ApiVersionsResponse

        return ApiVersionsResponse(
            error_code=code,
            api_keys=[
                ApiVersionsResponse.ApiVersion(
                    api_key=key, min_version=api.versions[0], max_version=api.versions[1]
                )
                for key, api in sorted(self._apis.items())
            ],
        )
