"""`breakglass serve`: the read-only dashboard in a browser."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from console.commands import new_app
from console.option_values import broker_ids
from console.options import Gone, connected
from console.output import say
from console.wiring import Connection
from services.errors import ReadOnly, UsageError

if TYPE_CHECKING:
    from console.web.access import Access

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
    theme: Annotated[
        str | None, typer.Option("--theme", metavar="NAME", help="How everything looks.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Refused here.", hidden=True)] = False,
) -> None:
    """Show the read-only dashboard in a browser: what is offline and how the cluster is.

    It listens on this machine alone; any other address takes a token, which is printed (or set
    in BREAKGLASS_WEB_TOKEN). Nothing can be changed from a browser.
    """
    if write:
        raise ReadOnly(
            "the dashboard in a browser changes nothing: run `breakglass --write` on a terminal"
        )
    access = _access(host)
    # Told now, rather than on each page.
    connection.access()
    _serve(connection, broker_ids(gone, "--gone"), access, port, theme)


def _access(host: str) -> Access:
    """Raises UsageError where the extra is missing, or the token is no good."""
    if find_spec("textual_serve") is None or find_spec("aiohttp") is None:
        raise UsageError(
            "the dashboard needs more than is installed: pip install 'breakglass[web]'"
        )
    from console.web.access import Access

    return Access.for_host(host, os.environ.get(TOKEN) or None)


def _serve(
    connection: Connection, gone: tuple[int, ...], access: Access, port: int, theme: str | None
) -> None:
    """Serve until Ctrl+C. Raises UsageError where it cannot listen."""
    import asyncio

    from console.look import LookOptions, decide_look
    from console.web.server import Dashboard, serve
    from console.web.session import session_environment
    from services.connection.profiles import default_folder

    decide_look(LookOptions(theme), default_folder())
    environment = session_environment(connection, gone, theme)
    for name in (*NO_TERMINAL, TOKEN):
        os.environ.pop(name, None)
    command = (sys.executable, "-m", "console.web.session")
    title = f"Breakglass {connection.options.profile or ''}".strip()
    dashboard = Dashboard(access, command, environment, title)

    async def run() -> None:
        stop = asyncio.Event()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(one, stop.set)
        await serve(dashboard, port, stop, lambda bound: say(f"Open {access.url(bound)}"))
        say("The dashboard has ended.")

    try:
        asyncio.run(run())
    except OSError as error:
        raise UsageError(
            f"cannot listen on {access.host}, port {port} ({error.strerror}): choose another"
        ) from None
