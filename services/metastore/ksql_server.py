"""Talks to ksqlDB servers: asks whether they run, and hands statements to them.

Asks ksqlDB servers by ``/info`` whether they run, and for their service and cluster.

Answers are limited in time and size, and shown as plain text only.

Hands statements to a ksqlDB server by its REST API, and reads what the server answers.

An answer is untrusted: it is limited in time and size, and shown as plain text only.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from breakglass.services import patience
from breakglass.services.connection.properties import require_own
from breakglass.services.errors import (
    AuthenticationFailed,
    BadConnectionSettings,
    ClusterError,
    ConnectFailed,
    UsageError,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown
from breakglass.services.regular_file import SETTINGS_BYTES, read_given
from breakglass.services.words.inert import bounded, bounded_url, inert

MOST_INFO_BYTES = 64 * 1024
MOST_SERVERS = 32
SHOWN_OF_INFO = 60
WANTS_CREDENTIALS = (401, 403)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server's own description; untrusted until it is escaped for display."""

    version: str
    cluster_id: str
    service_id: str
    status: str


@dataclass(frozen=True, slots=True)
class AskedServers:
    """Sentences about the servers that were asked."""

    seen: tuple[str, ...] = ()
    """Servers that run."""
    unknown: tuple[str, ...] = ()
    """Servers that may run, and servers of another service."""


def server_url(text: str) -> SplitResult:
    """The address of a server, with or without ``http://``.

    Raises: UsageError for an invalid address, and for an address with a password.
    """
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        usable = None
    if not usable:
        raise UsageError(f"{inert(text)} is no address of a server: give http://HOST:PORT.")
    if url.username is not None or url.password is not None:
        raise UsageError(
            f"the address of {inert(url.hostname or '')} holds a name or a password, which others "
            "would see: leave it out, for a server that refuses to answer is seen as well."
        )
    return url


def ask_servers(
    urls: Sequence[SplitResult],
    service_id: str,
    cluster_id: str,
    seconds: float = patience.KSQL_SERVER,
) -> AskedServers:
    """Ask all servers in parallel. A missing answer is a reason in the result, never an error."""
    asked = [_Asked(url, seconds) for url in urls[:MOST_SERVERS]]
    for one in asked:
        one.start()
    seen, unknown = [], []
    ends = time.monotonic() + seconds
    for one in asked:
        told = one.answer(ends)
        where = bounded_url(one.url.geturl(), SHOWN)
        if isinstance(told, Unknown):
            unknown.append(f"{where}: {told.reason}")
        elif isinstance(told, str):
            seen.append(f"{where}: {told}")
        elif (told.service_id, told.cluster_id) != (service_id, cluster_id):
            named = f"{_shown_info(told.service_id)} on cluster {_shown_info(told.cluster_id)}"
            unknown.append(f"{where} is a server of another service: {named}")
        else:
            version = f"ksqlDB {_shown_info(told.version)}"
            state = f", {_shown_info(told.status)}" if told.status else ""
            seen.append(f"{where} answers: {version}{state}")
    left = len(urls) - len(asked)
    if left > 0:
        unknown.append(f"{left:,} more servers were not asked")
    return AskedServers(tuple(seen), tuple(unknown))


class _Asked:
    """A server that a thread asks; the thread is abandoned after the deadline."""

    def __init__(self, url: SplitResult, seconds: float) -> None:
        self.url = url
        self._seconds = seconds
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        self._connection = kind(url.hostname or "", url.port, timeout=seconds)
        self._told: ServerInfo | Unknown | str | None = None
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def answer(self, ends: float) -> ServerInfo | Unknown | str:
        """The server's answer by *ends*, in seconds of the monotonic clock.

        A text if the server runs but does not identify itself.
        """
        self._thread.join(max(ends - time.monotonic(), 0))
        told = self._told
        if told is not None:
            return told
        opened = self._connection.sock
        if opened is not None:
            # Ends the thread, which would otherwise run as long as the server sends single bytes.
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        state = "nothing" if opened is None else "something that"
        return Unknown(
            f"{state} answers within {self._seconds:.0f} s; it may be a server that hangs"
        )

    def _ask(self) -> None:
        try:
            path = f"{self.url.path.rstrip('/')}/info"
            self._connection.request("GET", path, headers={"Accept": "application/json"})
            answer = self._connection.getresponse()
            self._told = info_of(answer.status, answer.read(MOST_INFO_BYTES + 1))
        except ConnectionRefusedError:
            self._told = Unknown("nothing listens there")
        except (OSError, HTTPException, ValueError) as error:
            why = bounded(str(error) or type(error).__name__, SHOWN_OF_INFO)
            self._told = Unknown(f"it does not answer as a server does ({why})")
        finally:
            self._connection.close()


def info_of(status: int, body: bytes) -> ServerInfo | Unknown | str:
    """The server's description in its answer; a text if it runs and wants credentials."""
    if status in WANTS_CREDENTIALS:
        return f"something runs there that wants credentials (HTTP {status})"
    if status != 200:
        return Unknown(f"it answers with HTTP {status}, and not who it is")
    if len(body) > MOST_INFO_BYTES:
        return Unknown(f"it answers with more than {MOST_INFO_BYTES:,} bytes, so it is no server")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return Unknown("it answers, and with no JSON")
    info = document.get("KsqlServerInfo") if isinstance(document, dict) else None
    if not isinstance(info, dict):
        return Unknown("it answers, and not as a ksqlDB server does")
    fields = ("version", "kafkaClusterId", "ksqlServiceId", "serverStatus")
    told = (info.get(field) for field in fields)
    return ServerInfo(*[text if isinstance(text, str) else "" for text in told])


def _shown_info(text: str) -> str:
    return bounded(text, SHOWN_OF_INFO) or "?"


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
        return bounded_url(self.url.geturl(), SHOWN)

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
        why = found.reason if isinstance(found, Unknown) else found
        raise ClusterError(f"{self} is not a ksqlDB server: {why}")

    @contextmanager
    def connected(self, seconds: float) -> Iterator[HTTPConnection]:
        """A connection that is cut after *seconds*.

        Raises: ConnectFailed, BadConnectionSettings.
        """
        host, port, deadline = self.url.hostname or "", self.url.port, Deadline.after(seconds)
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
        cut = threading.Timer(deadline.remaining(), _cut, (made.sock,))
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
        # As in `connection.tls`: the default context of Python 3.13 and newer refuses
        # certificates without key identifiers, which openssl makes by default; Java takes them.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca is None:
            context.load_default_certs()
            return context
        try:
            require_own(self.ca)
            trusted = read_given(self.ca, SETTINGS_BYTES)
            context.load_verify_locations(cadata=trusted.decode("ascii", "ignore"))
        except (OSError, ValueError) as error:
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
