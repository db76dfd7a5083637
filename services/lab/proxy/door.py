"""A listening socket that can be shut, refusing connections, and opened on the same port."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import LOOPBACK, Address
from breakglass.services.lab.ports import free_ports

BIND_ATTEMPTS = 20
BACKLOG = 128


class Door:
    """Hands each accepted connection to *welcome*, in the accepting thread.

    Shut, the port stays bound without listening: nobody else takes it, and the system
    itself refuses whoever connects.

    Raises:
        LabError: the port is taken.
    """

    def __init__(
        self, address: tuple[str, int] | None, welcome: Callable[[socket.socket], None]
    ) -> None:
        self._welcome = welcome
        self._socket = _bind(address) if address else _bind_anywhere()
        self.address = Address(*self._socket.getsockname()[:2])
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None

    def open(self) -> None:
        """Listen; without effect on an open door."""
        if self._thread is not None:
            return
        self._socket.listen(BACKLOG)
        self._wake, woken = socket.socketpair()
        self._thread = threading.Thread(
            target=self._accept, args=(self._socket, woken), name=f"door {self.address.port}"
        )
        self._thread.daemon = True
        self._thread.start()

    def shut(self) -> None:
        """Refuse connections from here on, those that nobody accepted yet included."""
        self.close()
        self._socket = _bind(self.address)

    def close(self) -> None:
        """Give the port up."""
        if self._thread is not None and self._wake is not None:
            self._wake.close()
            self._thread.join()
            self._thread = None
        self._socket.close()

    def _accept(self, listener: socket.socket, woken: socket.socket) -> None:
        with woken, selectors.DefaultSelector() as waiting:
            waiting.register(listener, selectors.EVENT_READ)
            waiting.register(woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in waiting.select()}
                if woken in ready:
                    return
                self._welcome(listener.accept()[0])


def _bind(address: tuple[str, int]) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise LabError(f"{address[0]}:{address[1]} cannot be bound ({error}): free it.") from error
    return bound


def _bind_anywhere() -> socket.socket:
    """A free port of those that stay free; another process may be choosing at the same time."""
    for _ in range(BIND_ATTEMPTS):
        try:
            return _bind((LOOPBACK, free_ports(1)[0]))
        except LabError:
            continue
    raise LabError("No port could be bound for a proxy: free some.")
