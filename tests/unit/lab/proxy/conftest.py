"""A broker that is a plain socket, and the proxy before it."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from breakglass.services.kafka.wire.passing import (
    Head,
    answer_frame,
    parse_head,
    read_frame,
    send_frame,
)
from breakglass.services.lab.proxy import Proxy

PATIENCE = 10.0
Answering = Callable[[Head, bytes], bytes | None]


def echo(head: Head, frame: bytes) -> bytes:
    """The correlation id, and all that followed the header."""
    return struct.pack(">i", head.correlation_id) + frame[head.end :]


@dataclass
class SocketBroker:
    """Accepts connections and answers each frame by `answering`; None answers nothing."""

    answering: Answering = echo
    received: list[bytes] = field(default_factory=list)
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listener.getsockname()
        return host, port

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.drop_connections()

    def drop_connections(self) -> None:
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while (frame := read_frame(connection)) is not None:
                    self.received.append(frame)
                    answer = self.answering(parse_head(frame), frame)
                    if answer is not None:
                        send_frame(connection, answer)
            except OSError:
                return


def request_frame(
    body: bytes = b"body",
    *,
    api_key: int = 3,
    api_version: int = 0,
    correlation_id: int = 1,
    client_id: str | None = "test",
) -> bytes:
    """A request with any body."""
    raw = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(raw)
    return struct.pack(">hhih", api_key, api_version, correlation_id, length) + raw + body


def encoded(request: Any, version: int, correlation_id: int = 1) -> bytes:
    """The frame of a real request."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation_id, client_id="test")
    return bytes(request.encode(header=True))


def answered(message: Any) -> Answering:
    """Answer every request with *message*, in the version asked for."""
    return lambda head, _: answer_frame(head, message)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(proxy.address, timeout=PATIENCE)


def exchange(sock: socket.socket, frame: bytes) -> bytes:
    """Send a request and return its answer."""
    send_frame(sock, frame)
    answer = read_frame(sock)
    assert answer is not None
    return answer


def ended(sock: socket.socket) -> bool:
    """Whether the peer closes or resets the connection, saying nothing more."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def echo_broker() -> Iterator[SocketBroker]:
    broker = SocketBroker()
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def proxy(echo_broker: SocketBroker) -> Iterator[Proxy]:
    with Proxy(echo_broker.address) as proxy:
        yield proxy
