"""`breakglass serve`: the read-only dashboard in a browser."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.option_values import broker_ids
from breakglass.console.options import (
    Gone,
    Host,
    ListenPort,
    Theme,
    TlsCertificate,
    TlsKey,
    connected,
    with_log_format,
)
from breakglass.console.output import say
from breakglass.console.stores import StoreAddresses, stores_in
from breakglass.console.wiring import Connection
from breakglass.services.errors import ReadOnly
from breakglass.services.extras import need

if TYPE_CHECKING:
    from breakglass.console.web.access import Access

TOKEN = "BREAKGLASS_WEB_TOKEN"  # noqa: S105 - the variable's name
PORT = 8417
NO_TERMINAL = ("NO_COLOR", "SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT", "LC_ALL", "COLORFGBG")
"""What the server's own terminal says and the browser's does not."""

app = new_app()


@app.command("serve")
@with_log_format
@connected
def serve_dashboard(
    connection: Connection,
    gone: Gone = None,
    host: Host = "127.0.0.1",
    port: ListenPort = PORT,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    theme: Theme = None,
    store: StoreAddresses = None,
    records: Annotated[
        bool, typer.Option("--records", help="Show what the records of backups hold, too.")
    ] = False,
    behind_tls: Annotated[
        bool,
        typer.Option("--behind-tls", help="Browsers use https, through a proxy that ends TLS."),
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="A name by which browsers reach the dashboard; addresses need none.",
        ),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Refused here.", hidden=True)] = False,
) -> None:
    """Show a read-only dashboard in a browser: the eight screens of the console.

    The dashboard listens on this machine only, unless --host is given with a certificate or with
    --behind-tls. Its page asks for the token, which is printed unless BREAKGLASS_WEB_TOKEN sets it.
    Nothing can be changed from a browser.
    """
    if write:
        raise ReadOnly(
            "the dashboard in a browser changes nothing: run `breakglass --write` on a terminal"
        )
    need("web")
    from breakglass.console.web.access import Access
    from breakglass.console.web.bearer import token_of
    from breakglass.console.web.listener import HttpListener

    listener = HttpListener.at(host, port, tls_certificate, tls_key, behind_tls=behind_tls)
    # Reported now, rather than on each page.
    connection.noted_access()
    stores_in(store or ())
    brokers = broker_ids(gone, "--gone")

    def environment() -> dict[str, str]:
        from breakglass.console.web.session import session_environment

        return session_environment(connection, brokers, theme, store or (), records=records)

    access = Access(listener, token_of(TOKEN), tuple(allowed_host or ()), behind_tls=behind_tls)
    _serve(environment, connection.options.profile or "", access, theme)


def _serve(
    environment: Callable[[], dict[str, str]],
    profile: str,
    access: Access,
    theme: str | None,
) -> None:
    """Serve until a signal. Raises UsageError where it cannot listen."""
    import asyncio

    from breakglass.console.look import LookOptions, decide_look
    from breakglass.console.web.server import Dashboard, serve
    from breakglass.services.connection.profiles import default_folder

    decide_look(LookOptions(theme), default_folder())
    of_session = environment()
    for name in NO_TERMINAL:
        os.environ.pop(name, None)
    command = (sys.executable, "-m", "breakglass.console.web.session")
    dashboard = Dashboard(access, command, of_session, f"Breakglass {profile}".strip())

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        url = access.listener.url
        await serve(dashboard, stop, lambda bound: say(f"Open {url(bound, '/')}"))
        say("The dashboard has ended.")

    asyncio.run(run())
