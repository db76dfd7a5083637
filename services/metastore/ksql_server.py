"""Hands statements to a ksqlDB server by its REST API, and reads what the server answers.

An answer is untrusted: it is limited in time and size, and shown as plain text only.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult

from breakglass.services import patience
from breakglass.services.errors import (
    AuthenticationFailed,
    BadConnectionSettings,
    ClusterError,
    ConnectFailed,
    UsageError,
)
from breakglass.services.metastore.restore.server_info import (
    WANTS_CREDENTIALS,
    ServerInfo,
    info_of,
)
from breakglass.services.words.inert import bounded, inert

MOST_BYTES = 1024 * 1024
SHOWN = 300
MEDIA = "application/vnd.ksql.v1+json"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServerAccepted(NamedTuple):
    """The server says that the command is in the command topic."""

    command_id: str
    offset: int
    status: str
    """What the server has made of the command so far: SUCCESS, QUEUED, ERROR ..."""
    message: str


class ServerNeedless(NamedTuple):
    """The server says that nothing was to be done."""

    message: str


class ServerRejected(NamedTuple):
    """The server answered with an error."""

    status: int
    message: str

    @property
    def wrote_nothing(self) -> bool:
        """Whether the error comes before the transaction: a statement or a user was refused."""
        return 400 <= self.status < 500 and "into the command topic" not in self.message


class ServerSilent(NamedTuple):
    """The request was sent, and no answer says what became of it."""

    reason: str


ServerReply = ServerAccepted | ServerNeedless | ServerRejected | ServerSilent


@dataclass(frozen=True, slots=True)
class KsqlServer:
    """The address of a server, and how to speak to it."""

    url: SplitResult
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    """Certificates of authorities, in place of the system's."""

    def __post_init__(self) -> None:
        plain = self.url.scheme != "https"
        if self.user is not None and plain and self.url.hostname not in LOOPBACK:
            raise UsageError(
                f"{self} would get the password in clear text: give an https:// address."
            )
        if self.ca is not None and plain:
            raise UsageError(f"{self} is reached without TLS: give an https:// address.")

    def __str__(self) -> str:
        return inert(self.url.geturl())

    def info(self, seconds: float = patience.COMMAND) -> ServerInfo:
        """What the server says of itself.

        Raises: ConnectFailed, AuthenticationFailed, ClusterError.
        """
        with self.connected(seconds) as connection:
            try:
                connection.request("GET", self._path("/info"), headers=self._headers())
                answer = connection.getresponse()
                found = info_of(answer.status, answer.read(MOST_BYTES))
            except (OSError, HTTPException, ValueError) as error:
                raise ConnectFailed(f"{self} does not answer ({_why(error)})") from None
        if isinstance(found, ServerInfo):
            return found
        if answer.status in WANTS_CREDENTIALS:
            raise AuthenticationFailed(
                f"{self} wants other credentials (HTTP {answer.status}): give --server-user"
            )
        raise ClusterError(f"{self} is not a ksqlDB server: {found}")

    @contextmanager
    def connected(self, seconds: float) -> Iterator[HTTPConnection]:
        """A connection that is cut after *seconds*.

        Raises: ConnectFailed, BadConnectionSettings.
        """
        host, port = self.url.hostname or "", self.url.port
        if self.url.scheme == "https":
            context = self._context()
            made: HTTPConnection = HTTPSConnection(host, port, timeout=seconds, context=context)
        else:
            made = HTTPConnection(host, port, timeout=seconds)
        try:
            made.connect()
        except (OSError, ValueError) as error:
            raise ConnectFailed(
                f"{self} cannot be reached ({_why(error)}); nothing was sent"
            ) from None
        # The socket itself: an answer without a length takes it from the connection.
        cut = threading.Timer(seconds, _cut, (made.sock,))
        cut.daemon = True
        cut.start()
        try:
            yield made
        finally:
            cut.cancel()
            made.close()

    def submit(self, connection: HTTPConnection, statement: str) -> ServerReply:
        """Send *statement*; never raises, because it may have been carried out whatever happens."""
        text = statement.rstrip().removesuffix(";") + ";"
        body = json.dumps({"ksql": text, "streamsProperties": {}}).encode()
        headers = self._headers() | {"Content-Type": f"{MEDIA}; charset=utf-8"}
        try:
            connection.request("POST", self._path("/ksql"), body, headers)
            answer = connection.getresponse()
            return _reply(answer.status, answer.read(MOST_BYTES + 1))
        except (OSError, HTTPException, ValueError) as error:
            return ServerSilent(f"no answer came ({_why(error)})")

    def _path(self, end: str) -> str:
        return self.url.path.rstrip("/") + end

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": MEDIA}
        if self.user is not None:
            both = f"{self.user}:{self.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(both).decode()}"
        return headers

    def _context(self) -> ssl.SSLContext:
        # As in `connection.tls_context`: the default context of Python 3.13 and newer refuses
        # certificates without key identifiers, which openssl makes by default; Java takes them.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca is None:
            context.load_default_certs()
            return context
        try:
            context.load_verify_locations(cafile=self.ca)
        except OSError as error:
            raise BadConnectionSettings(
                f"{self.ca} has no certificates that can be used ({_why(error)})"
            ) from None
        return context


def _cut(opened: socket.socket) -> None:
    """End every wait on *opened*; a server that sends single bytes would keep it otherwise."""
    with suppress(OSError):
        # Not TLS's own, which would change what the waiting thread reads from.
        socket.socket.shutdown(opened, socket.SHUT_RDWR)


def _reply(status: int, body: bytes) -> ServerReply:
    if len(body) > MOST_BYTES:
        return ServerSilent(f"it answered with more than {MOST_BYTES:,} bytes")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if status != 200:
        told = document.get("message") if isinstance(document, dict) else None
        return ServerRejected(status, _shown(told) or f"HTTP {status}")
    for entity in document if isinstance(document, list) else ():
        found = _entity(entity)
        if found is not None:
            return found
    return ServerSilent("its answer does not say what became of the statement")


def _entity(entity: object) -> ServerReply | None:
    if not isinstance(entity, dict):
        return None
    if entity.get("@type") == "warning_entity":
        return ServerNeedless(_shown(entity.get("message")))
    told, offset = entity.get("commandId"), entity.get("commandSequenceNumber")
    state: Any = entity.get("commandStatus")
    if entity.get("@type") != "currentStatus" or not isinstance(told, str):
        return None
    if type(offset) is not int or offset < 0 or not isinstance(state, dict):
        return None
    return ServerAccepted(told, offset, _shown(state.get("status")), _shown(state.get("message")))


def _shown(told: object) -> str:
    return bounded(" ".join(told.split()), SHOWN) if isinstance(told, str) else ""


def _why(error: Exception) -> str:
    return bounded(str(error) or type(error).__name__, SHOWN)
