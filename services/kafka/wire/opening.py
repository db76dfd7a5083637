"""Connections that are being opened: whoever closes a session ends these waits too."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from breakglass.services.errors import SessionClosing
from breakglass.services.kafka.wire.connection import Begun


def session_closing() -> SessionClosing:
    """Raised in place of anything that would be sent once a session is closing."""
    return SessionClosing("this session is closing: start the command again", "session closing")


class Opening:
    """The sockets of connections that nobody holds yet, because they are not made."""

    def __init__(self) -> None:
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._over = False

    @contextlib.contextmanager
    def watch(self) -> Iterator[Begun]:
        """Hand out what a connection tells its sockets to; inside, `end` ends its waits.

        It raises SessionClosing once all has ended.
        """
        mine: list[socket.socket] = []

        def begun(sock: socket.socket) -> None:
            with self._lock:
                if self._over:
                    raise session_closing()
                # TLS takes a socket's descriptor over: a second one reaches the connection still.
                mine.append(sock.dup())
                self._sockets.add(mine[-1])

        try:
            yield begun
        finally:
            with self._lock:
                self._sockets.difference_update(mine)
            for one in mine:
                one.close()

    def end(self) -> None:
        """Break off everything that is being opened; nothing more will be."""
        with self._lock:
            self._over = True
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
