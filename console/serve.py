"""`breakglass serve`: the read-only dashboard in a browser."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.option_values import broker_ids
from breakglass.console.options import Gone, Theme, connected
from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.errors import ReadOnly, UsageError
from breakglass.services.extras import need

if TYPE_CHECKING:
    from breakglass.console.web.access import Access

TOKEN = "BREAKGLASS_WEB_TOKEN"  # noqa: S105 - the variable's name
PORT = 8417
NO_TERMINAL = ("NO_COLOR", "SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT", "LC_ALL", "COLORFGBG")
"""What the server's own terminal says and the browser's does not."""

app = new_app()


@app.command("serve")
@connected
def serve_dashboard(
    connection: Connection,
    gone: Gone = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = PORT,
    theme: Theme = None,
    behind_tls: Annotated[
        bool,
        typer.Option("--behind-tls", help="Browsers come by https, through a proxy with TLS."),
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Refused here.", hidden=True)] = False,
) -> None:
    """Show the read-only dashboard in a browser: what is offline and how the cluster is.

    It listens on this machine alone, unless --host says otherwise, and answers who brings the
    token, which is printed (or set in BREAKGLASS_WEB_TOKEN, and then not printed). Nothing can be
    changed from a browser.
    """
    if write:
        raise ReadOnly(
            "the dashboard in a browser changes nothing: run `breakglass --write` on a terminal"
        )
    access = _access(host, behind_tls=behind_tls)
    # Told now, rather than on each page.
    connection.access()
    _serve(connection, broker_ids(gone, "--gone"), access, port, theme)


def _access(host: str, *, behind_tls: bool) -> Access:
    """Raises UsageError where the extra is missing, or the token is no good."""
    need("web")
    from breakglass.console.web.access import Access

    return Access.for_host(host, os.environ.get(TOKEN) or None, behind_tls=behind_tls)


def _serve(
    connection: Connection, gone: tuple[int, ...], access: Access, port: int, theme: str | None
) -> None:
    """Serve until Ctrl+C. Raises UsageError where it cannot listen."""
    import asyncio

    from breakglass.console.look import LookOptions, decide_look
    from breakglass.console.web.server import Dashboard, serve
    from breakglass.console.web.session import session_environment
    from breakglass.services.connection.profiles import default_folder

    decide_look(LookOptions(theme), default_folder())
    environment = session_environment(connection, gone, theme)
    for name in (*NO_TERMINAL, TOKEN):
        os.environ.pop(name, None)
    command = (sys.executable, "-m", "breakglass.console.web.session")
    title = f"Breakglass {connection.options.profile or ''}".strip()
    dashboard = Dashboard(access, command, environment, title)

    async def run() -> None:
        stop = asyncio.Event()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(one, stop.set)
        behind = f" with the token of {TOKEN} at its end" if access.own else ""
        await serve(dashboard, port, stop, lambda bound: say(f"Open {access.url(bound)}{behind}"))
        say("The dashboard has ended.")

    try:
        asyncio.run(run())
    except OSError as error:
        raise UsageError(
            f"cannot listen on {access.host}, port {port} ({error.strerror}): choose another"
        ) from None
