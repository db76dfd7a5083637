"""A TLS server on loopback that greets each client and remembers who it was."""

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.connection.certificates import Identity

GREETING = b"hello"


@dataclass(frozen=True)
class Visit:
    """One handshake as the server saw it."""

    common_name: str | None
    """Of the client's certificate; None without one."""
    version: str | None
    failure: str = ""


class TlsServer:
    """Where it listens, and the handshakes it has seen."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        self.host, self.port = listener.getsockname()[:2]
        self._visits: queue.SimpleQueue[Visit] = queue.SimpleQueue()
        self._listener = listener
        self._context = context
        self.thread = threading.Thread(target=self._serve)

    def visit(self) -> Visit:
        """The next handshake, waiting for it."""
        return self._visits.get(timeout=DEADLINE_SECONDS)

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            with accepted:
                accepted.settimeout(DEADLINE_SECONDS)
                self._visits.put(self._greet(accepted))

    def _greet(self, accepted: socket.socket) -> Visit:
        try:
            with self._context.wrap_socket(accepted, server_side=True) as secured:
                der = secured.getpeercert(binary_form=True)
                secured.sendall(GREETING)
                return Visit(_common_name(der) if der else None, secured.version())
        except OSError as error:
            return Visit(None, None, str(error))


def _common_name(der: bytes) -> str:
    (name,) = x509.load_der_x509_certificate(der).subject
    return str(name.value)


@contextlib.contextmanager
def serving(
    identity: Identity, folder: Path, *, trusting: Identity | None = None
) -> Iterator[TlsServer]:
    """Serve as *identity*; ask clients for a certificate that *trusting* vouches for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = folder / "server.pem"
    pem.write_text(identity.chain_pem + identity.key_pem())
    context.load_cert_chain(pem)
    if trusting is not None:
        context.load_verify_locations(cadata=trusting.pem)
        context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = TlsServer(listener, context)
        server.thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.thread.join(DEADLINE_SECONDS)
