"""Answers made once and told from memory afterwards, as soon as a broker would tell them.

The generated brokers take far longer over an answer than real ones. A replay stands before one of
them: it passes on what it has not been asked before, and repeats the answer to what it has.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.kafka.wire.passing import read_frame, send_frame

CORRELATION = slice(4, 8)
"""Where a request has its correlation id; an answer begins with it."""


class Replay:
    """Listens on loopback for one broker; a context manager that ends its threads.

    For stories that do not change, and requests that change nothing.
    """

    def __init__(self, broker: Endpoint) -> None:
        self._broker = broker
        self._answers: dict[bytes, bytes] = {}
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint(*self._listener.getsockname()[:2])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        address = self._broker.host, self._broker.port
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with socket.create_connection(address) as broker:
                while (request := read_frame(connection)) is not None:
                    # What follows the correlation id in the answer. Raises ConnectionError.
                    asked = request[: CORRELATION.start] + request[CORRELATION.stop :]
                    if asked not in self._answers:
                        send_frame(broker, request)
                        answer = read_frame(broker)
                        if answer is None:
                            raise ConnectionResetError("the broker hung up")
                        self._answers[asked] = answer[4:]
                    send_frame(connection, request[CORRELATION] + self._answers[asked])
