"""Asks ksqlDB servers by ``/info`` whether they run, and for their service and cluster.

Answers are limited in time and size, and shown as plain text only.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from breakglass.services import patience
from breakglass.services.errors import UsageError
from breakglass.services.model import Unknown
from breakglass.services.words.inert import bounded, inert

MOST_BYTES = 64 * 1024
MOST_SERVERS = 32
SHOWN = 60
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
        where = inert(one.url.geturl())
        if isinstance(told, Unknown):
            unknown.append(f"{where}: {told.reason}")
        elif isinstance(told, str):
            seen.append(f"{where}: {told}")
        elif (told.service_id, told.cluster_id) != (service_id, cluster_id):
            named = f"{_shown(told.service_id)} on cluster {_shown(told.cluster_id)}"
            unknown.append(f"{where} is a server of another service: {named}")
        else:
            version = f"ksqlDB {_shown(told.version)}"
            state = f", {_shown(told.status)}" if told.status else ""
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
            self._told = info_of(answer.status, answer.read(MOST_BYTES + 1))
        except ConnectionRefusedError:
            self._told = Unknown("nothing listens there")
        except (OSError, HTTPException, ValueError) as error:
            why = bounded(str(error) or type(error).__name__, SHOWN)
            self._told = Unknown(f"it does not answer as a server does ({why})")
        finally:
            self._connection.close()


def info_of(status: int, body: bytes) -> ServerInfo | Unknown | str:
    """The server's description in its answer; a text if it runs and wants credentials."""
    if status in WANTS_CREDENTIALS:
        return f"something runs there that wants credentials (HTTP {status})"
    if status != 200:
        return Unknown(f"it answers with HTTP {status}, and not who it is")
    if len(body) > MOST_BYTES:
        return Unknown(f"it answers with more than {MOST_BYTES:,} bytes, so it is no server")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return Unknown("it answers, and with no JSON")
    info = document.get("KsqlServerInfo") if isinstance(document, dict) else None
    if not isinstance(info, dict):
        return Unknown("it answers, and not as a ksqlDB server does")
    fields = ("version", "kafkaClusterId", "ksqlServiceId", "serverStatus")
    return ServerInfo(*[_text(info.get(field)) for field in fields])


def _text(told: object) -> str:
    return told if isinstance(told, str) else ""


def _shown(text: str) -> str:
    return bounded(text, SHOWN) or "?"
