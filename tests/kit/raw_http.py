"""A peer that is asked by HTTP and sends back whatever bytes it was told, HTTP or not."""

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\n"


def answer_of(text: bytes, kind: bytes = b"application/json") -> list[bytes]:
    """A proper answer with that body."""
    return [OK + b"Content-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(text)) + text]


@contextmanager
def raw_http(pieces: Iterable[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Send *pieces* to whoever asks, then hang up; the address, and what was asked."""
    asked: list[bytes] = []

    def answer() -> None:
        while True:
            # The client hangs up, or the test ends.
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    asked.append(connection.recv(65_536))
                    for piece in pieces:
                        connection.sendall(piece)
            if listener.fileno() < 0:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", asked
