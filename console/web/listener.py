"""Where a server listens, who may read what it sends on its way, and how it serves until it stops.

All servers (checkpoints, metrics, the dashboard) ask for ``Authorization: Bearer TOKEN``, on this
machine too: every account of a bastion reaches its ports. Off this machine they listen only
with TLS, because others would read the token otherwise.

Any account that reaches the port can open connections and send nothing. Such a connection has a
deadline, and where too many wait, the one that has waited longest is closed for a new one: a client
that sends its request at once is answered whatever others do.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import os
import resource
import secrets
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiohttp import hdrs, web, web_response
from aiohttp.http_exceptions import HttpProcessingError
from typing_extensions import override

from breakglass.console.exits import say_ready
from breakglass.console.output import say
from breakglass.services import patience
from breakglass.services.connection.properties import read_private, require_own
from breakglass.services.errors import Refused, UsageError
from breakglass.services.monitoring.meters import CONTENT_TYPE
from breakglass.services.regular_file import open_regular

SHORTEST = 16
"""Characters of a token that somebody chose."""
WITHOUT_TOKEN = "Send the token that this server was started with: Authorization: Bearer"  # noqa: S105
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SERVER = "breakglass"
"""What the header of that name says; aiohttp's own text has versions."""
HEADERS = {
    hdrs.CACHE_CONTROL: "no-store",
    hdrs.CONTENT_SECURITY_POLICY: "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer, whatever it answers."""
AIOHTTP_SECONDS = 60.0
"""What aiohttp itself gives requests under way."""
WAITING = 128
"""Connections that wait for their peers, of all peers; one address has half of them."""
HEAD = {"max_line_size": 8190, "max_field_size": 4096, "max_headers": 64}
"""How much a request's head may have, in bytes and headers: every waiting connection holds one."""
UNREAD_SECONDS = 2.0
"""For the rest of a body that was not asked for, before the connection is closed."""
COMPLAINT_SECONDS = 60.0
"""Between two lines that say that no descriptor is left."""
REFUSALS = frozenset((401, 403, 421))
"""Answers that end the connection: who is refused does not ask on and on, and read nothing."""
EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class HttpListener:
    """Where a server listens."""

    host: str
    port: int
    """0 for any free port."""
    tls: ssl.SSLContext | None = None

    @classmethod
    def at(
        cls,
        host: str,
        port: int,
        certificate: Path | None = None,
        key: Path | None = None,
        *,
        behind_tls: bool = False,
    ) -> HttpListener:
        """The listener on *host*; on all but this machine's own addresses only with TLS.

        With *behind_tls* the operator says that a proxy, which clients talk to, ends TLS.

        Raises:
            UsageError: the certificate and the key cannot be used, or one of them is missing.
            Refused: others would read the token on its way.
        """
        if (certificate is None) != (key is None):
            raise UsageError("TLS needs both: name --tls-certificate and --tls-key.")
        if certificate is not None and key is not None:
            return cls(host, port, server_tls(certificate, key))
        if not (behind_tls or is_loopback(host)):
            raise Refused(
                f"{host or 'every address'} can be reached from other machines, and the token "
                "would be sent without encryption: add --tls-certificate and --tls-key, or "
                "listen on 127.0.0.1"
            )
        return cls(host, port)

    def url(self, port: int, rest: str) -> str:
        """The address of *rest*, which begins with a slash, with the *port* that was bound."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{port}{rest}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches *host*: an address, or a name with such addresses alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    # Without a name, getaddrinfo answers with loopback, and a server listens everywhere.
    return bool(host) and all(ip_address(address[0]).is_loopback for *_, address in found)


def server_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer with this certificate chain and its private key, both in PEM.

    Raises:
        BadConnectionSettings: other accounts can write one of the files.
        UsageError: the files cannot be used, or the key has a password.
    """

    def no_password() -> str:
        raise UsageError(f"{key} has a password, which a server cannot type: name a key without.")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    require_own(certificate, key)
    try:
        for file in (certificate, key):
            # A FIFO would be waited for without end.
            open_regular(file).close()
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        raise UsageError(
            f"{certificate} and {key} cannot be used ({error.reason or error}): name a certificate "
            "and its private key, both in PEM."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{certificate} and {key} cannot be read ({error.strerror}): check their names and "
            "rights."
        ) from None
    return context


class WaitingPeers:
    """The connections of a server that wait for their peers: for a request, or the rest of one."""

    def __init__(self) -> None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = min(WAITING, descriptors // 4)
        self._sockets: dict[Any, socket.socket] = {}
        """By the peer's address, the longest wait first."""

    def add(self, peer: Any, connection: socket.socket) -> None:
        """Count a new *connection* of *peer*, and close another where there are too many."""
        self._sockets = {one: held for one, held in self._sockets.items() if held.fileno() >= 0}
        self._sockets[peer] = connection
        of_host = [one for one in self._sockets if one[0] == peer[0]]
        if len(of_host) > self._most // 2:
            self._close(of_host[0])
        elif len(self._sockets) > self._most:
            self.close_longest()

    def close_longest(self) -> None:
        if self._sockets:
            self._close(next(iter(self._sockets)))

    def _close(self, peer: Any) -> None:
        # Its transport finds the end at once, in the middle of a TLS handshake too, and closes it.
        with suppress(OSError):
            self._sockets.pop(peer).shutdown(socket.SHUT_RDWR)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A connection whose request is being answered does not wait for its peer."""
        peer = request.get_extra_info("peername")
        connection = self._sockets.pop(peer, None)
        try:
            return await handler(request)
        finally:
            if connection is not None:
                self._sockets[peer] = connection


class Peer(web.RequestHandler):
    """One connection, whose peer may send what is no request."""

    @override
    def handle_error(self, *args: Any, **kw: Any) -> web.StreamResponse:
        response = super().handle_error(*args, **kw)
        response.headers.update(HEADERS)
        return response

    @override
    def log_exception(self, *args: Any, **kw: Any) -> None:
        """A defect of ours is worth a traceback; what a peer sends is not."""
        if not isinstance(kw.get("exc_info"), HttpProcessingError | web.RequestPayloadError):
            super().log_exception(*args, **kw)


async def _accept(
    listening: socket.socket,
    waiting: WaitingPeers,
    take: Callable[[socket.socket], Awaitable[object]],
) -> None:
    """Take connections until this is cancelled; without a descriptor, say so once a minute."""
    loop = asyncio.get_running_loop()
    handshakes: set[asyncio.Task[None]] = set()
    said = -COMPLAINT_SECONDS

    async def connect(connection: socket.socket) -> None:
        # TLS that was not agreed on, or not in time.
        with suppress(OSError):
            await take(connection)

    while True:
        try:
            connection, peer = await loop.sock_accept(listening)
        except OSError as error:
            if error.errno not in EXHAUSTED:
                await asyncio.sleep(0)  # It ended before it was accepted.
                continue
            waiting.close_longest()
            if loop.time() - said >= COMPLAINT_SECONDS:
                said = loop.time()
                say(
                    f"no connection can be accepted ({error.strerror}): raise the limit of open "
                    "files (`ulimit -n`), or end what opens so many connections to this port"
                )
            await asyncio.sleep(patience.ALARM)
            continue
        waiting.add(peer, connection)
        task = loop.create_task(connect(connection))
        handshakes.add(task)
        task.add_done_callback(handshakes.discard)
        # One that is accepted at once does not let others run.
        await asyncio.sleep(0)


async def serve_until(
    application: web.Application,
    listener: HttpListener,
    stopped: asyncio.Event,
    started: Callable[[int], object],
    answer_seconds: float = AIOHTTP_SECONDS,
) -> None:
    """Serve until *stopped*; *started* gets the port that was bound.

    Requests under way then have *answer_seconds* to be answered.

    Raises UsageError: it cannot listen there.
    """
    # Before any request: aiohttp answers bytes that are no request, too.
    web_response.SERVER_SOFTWARE = SERVER  # type: ignore[attr-defined]

    async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)
        if response.status in REFUSALS:
            response.force_close()
            response.headers[hdrs.CONNECTION] = "close"

    loop, waiting = asyncio.get_running_loop(), WaitingPeers()
    application.middlewares.insert(0, waiting.middleware)
    application.on_response_prepare.append(add_headers)
    runner = web.AppRunner(application, shutdown_timeout=answer_seconds)
    await runner.setup()
    assert runner.server is not None
    limits: dict[str, Any] = {
        "access_log": None,
        "keepalive_timeout": patience.PEER,
        "lingering_time": UNREAD_SECONDS,
        **HEAD,
    }
    peer = partial(Peer, runner.server, loop=loop, **limits)
    take = partial(loop.connect_accepted_socket, peer)
    if listener.tls is not None:
        take = partial(
            take,
            ssl=listener.tls,
            ssl_handshake_timeout=patience.REQUEST,
            ssl_shutdown_timeout=UNREAD_SECONDS,
        )
    accepting: list[asyncio.Task[None]] = []
    with ExitStack() as opened:
        try:
            try:
                # It binds; what it accepted, no deadline before TLS and no limit would end.
                bound = await loop.create_server(
                    asyncio.Protocol, listener.host, listener.port, start_serving=False
                )
                opened.callback(bound.close)
                sockets = [opened.enter_context(closing(one.dup())) for one in bound.sockets]
                for one in sockets:
                    one.setblocking(False)
                    one.listen()
            except OSError as error:
                raise UsageError(
                    f"cannot listen on {listener.host}, port {listener.port} ({error.strerror}): "
                    "choose another"
                ) from None
            accepting += [loop.create_task(_accept(one, waiting, take)) for one in sockets]
            started(sockets[0].getsockname()[1])
            say_ready()
            await stopped.wait()
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.gather(*accepting, return_exceptions=True)
            opened.close()
            await runner.cleanup()


async def serve_until_signal(
    application: web.Application,
    listener: HttpListener,
    started: Callable[[int], object],
    stopping: Callable[[], object] = lambda: None,
    answer_seconds: float = AIOHTTP_SECONDS,
) -> None:
    """The same until a signal; each signal calls *stopping*."""
    stopped = asyncio.Event()

    def stop() -> None:
        stopping()
        stopped.set()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await serve_until(application, listener, stopped, started, answer_seconds)


def bears(request: web.Request, token: str) -> bool:
    """Whether *request* brings *token*."""
    scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    # Bytes that are no UTF-8 come as lone surrogates.
    sent = given.strip().encode("utf-8", "surrogateescape")
    return hmac.compare_digest(sent, token.encode()) and scheme.lower() == "bearer"


def token_of(variable: str, file: Path | None = None) -> str:
    """The token of the *file*, else of the environment's *variable*; else a new one, printed.

    Raises:
        UsageError: there are two tokens, or the token is too short or no token.
        Refused: others may read the file.
    """
    chosen = os.environ.pop(variable, None)
    if file is not None and chosen is not None:
        raise UsageError(f"{variable} and --token-file both name a token: leave one of them out.")
    where = variable
    if file is not None:
        chosen, where = read_private(file).strip(), str(file)
    if chosen is None:
        made = secrets.token_urlsafe(24)
        say(f"token: {made}")
        return made
    if len(chosen) < SHORTEST:
        raise UsageError(f"{where} has {len(chosen)} characters, and needs {SHORTEST}.")
    if not (chosen.isascii() and chosen.isprintable()) or " " in chosen:
        raise UsageError(f"{where} holds no token: write one line of letters and digits.")
    return chosen


PATH = "/metrics"


def metrics_application(answer: Callable[[], bytes], token: str) -> web.Application:
    """What aiohttp runs; *answer* makes each answer, in a thread."""

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not bears(request, token):
            headers = {hdrs.WWW_AUTHENTICATE: "Bearer"}
            raise web.HTTPUnauthorized(text=WITHOUT_TOKEN, headers=headers)
        return await handler(request)

    async def metrics(_: web.Request) -> web.Response:
        body = await asyncio.to_thread(answer)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    application = web.Application(middlewares=[admit])
    application.add_routes([web.get(PATH, metrics)])
    return application
