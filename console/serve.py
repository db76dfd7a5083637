"""`breakglass serve`: the read-only dashboard in a browser."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

import typer

from breakglass.console.cli import new_app
from breakglass.console.options import (
    GoneBrokers,
    Host,
    ListenPort,
    Theme,
    TlsCertificate,
    TlsKey,
    connected,
    with_log_format,
)
from breakglass.console.output import say
from breakglass.console.wiring import Connection, StoreAddresses, stores_in
from breakglass.services.connection.profiles import default_folder
from breakglass.services.errors import ReadOnly
from breakglass.services.extras import need

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
    gone: GoneBrokers = (),
    host: Host = "127.0.0.1",
    port: ListenPort = PORT,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    theme: Theme = None,
    store: StoreAddresses = None,
    records: Annotated[
        bool,
        typer.Option(
            "--show-records", "--records", help="Also show what the records of backups hold."
        ),
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
    from breakglass.console.look import LookOptions, decide_look
    from breakglass.console.web.listener import HttpListener, serve_until_signal, token_of
    from breakglass.console.web.server import SHUTDOWN_SECONDS, Access, Dashboard
    from breakglass.console.web.session import session_environment

    listener = HttpListener.at(host, port, tls_certificate, tls_key, behind_tls=behind_tls)
    # Reported now, rather than on each page.
    connection.noted_access()
    stores_in(store or ())
    decide_look(LookOptions(theme), default_folder())
    brokers = gone

    access = Access(listener, token_of(TOKEN), tuple(allowed_host or ()), behind_tls=behind_tls)
    of_session = session_environment(connection, brokers, theme, store or (), records=records)
    for name in NO_TERMINAL:
        os.environ.pop(name, None)
    command = (sys.executable, "-P", "-m", "breakglass.console.web.session")
    title = f"Breakglass {connection.options.profile or ''}".strip()
    application = Dashboard(access, command, of_session, title).application()
    asyncio.run(
        serve_until_signal(
            application,
            listener,
            lambda bound: say(f"Open {listener.url(bound, '/')}"),
            answer_seconds=SHUTDOWN_SECONDS,
        )
    )
    say("The dashboard has ended.")
