"""Where a server listens, who may read what it sends on its way, and how it serves until it stops.

All servers (checkpoints, metrics, the dashboard) ask for a token. Off this machine they listen only
with TLS, because others would read the token otherwise.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web, web_response

from breakglass.services.errors import Refused, UsageError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SERVER = "breakglass"
"""What the header of that name says; aiohttp's own text has versions."""
AIOHTTP_SECONDS = 60.0
"""What aiohttp itself gives requests under way."""


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
        UsageError: the files cannot be used, or the key has a password.
    """

    def no_password() -> str:
        raise UsageError(f"{key} has a password, which a server cannot type: name a key without.")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
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


async def serve_until(
    application: web.Application,
    listener: HttpListener,
    stopped: asyncio.Event,
    started: Callable[[int], object],
    answer_seconds: float = AIOHTTP_SECONDS,
) -> None:
    """Serve until *stopped*; *started* gets the port that was bound.

    Requests under way then have *answer_seconds* to be answered.

    Raises:
        UsageError: it cannot listen there.
    """
    # Before any request: aiohttp answers bytes that are no request, too.
    web_response.SERVER_SOFTWARE = SERVER  # type: ignore[attr-defined]
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=answer_seconds)
    await runner.setup()
    try:
        site = web.TCPSite(runner, listener.host, listener.port, ssl_context=listener.tls)
        try:
            await site.start()
        except OSError as error:
            raise UsageError(
                f"cannot listen on {listener.host}, port {listener.port} ({error.strerror}): "
                "choose another"
            ) from None
        started(runner.addresses[0][1])
        await stopped.wait()
    finally:
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
