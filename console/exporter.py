"""`breakglass serve metrics`: a cluster and its backups, as metrics for Prometheus."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass import __version__
from breakglass.console.cli import new_app
from breakglass.console.options import (
    NO_EVENTS,
    EventOptions,
    GoneBrokers,
    Host,
    ListenPort,
    TlsCertificate,
    TlsKey,
    TokenFile,
    connected,
    duration,
    with_log_format,
)
from breakglass.console.output import say
from breakglass.console.wiring import Connection, StoreAddresses, places_of
from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError, UsageError
from breakglass.services.extras import need
from breakglass.services.regular_file import replace_regular

if TYPE_CHECKING:
    from breakglass.console.web.listener import HttpListener
    from breakglass.services.lag import Behind, CaughtUpAgain
    from breakglass.services.monitoring.watching import MonitoredPlaces, MonitoringWatch

TOKEN = "BREAKGLASS_EXPORTER_TOKEN"  # noqa: S105 - the variable's name
PORT = 8418
EVERY_MS = 15_000
FILE_MODE = 0o644
"""node_exporter reads the file from another account."""

app = new_app()


@app.command("exporter")
@with_log_format
@connected
def export(
    connection: Connection,
    store: StoreAddresses = None,
    gone: GoneBrokers = (),
    every: Annotated[
        int,
        duration(
            "--every",
            example="15s",
            help="Time from one run to the next.",
            least_ms=1_000,
            shown="15s",
        ),
    ] = EVERY_MS,
    host: Host = "127.0.0.1",
    port: ListenPort = PORT,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    token_file: TokenFile = None,
    once: Annotated[
        bool, typer.Option("--once", help="Look once, print the metrics, and end.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--textfile",
            "--out",
            metavar="FILE",
            help="With --once: replace this file with the metrics.",
        ),
    ] = None,
    on_event: EventOptions = NO_EVENTS,
) -> None:
    """Export metrics: what is offline and at risk, and how old backups and verifications are.

    GET /metrics answers a client that brings the token, which is printed unless --token-file or
    BREAKGLASS_EXPORTER_TOKEN sets it. The exporter listens on this machine only, unless --host and
    a certificate are given. If the last read of a source failed, or three reads are overdue, its
    figures are left out and source_up is 0. With --once nothing is served: the exit code is 1 if a
    source could not be read.
    """
    need("web")
    if out is not None and not once:
        raise UsageError("--textfile is the file of one look: add --once")
    from breakglass.console.web.listener import HttpListener, token_of
    from breakglass.services.monitoring.watching import MonitoringWatch

    listener = HttpListener.at(host, port, tls_certificate, tls_key)
    with ExitStack() as opened:
        events = opened.enter_context(on_event.sending("serve metrics", lasting=not once))

        def report(source: str, change: Behind | CaughtUpAgain) -> None:
            if not once:
                say(f"{source}: {change}")
                events.lag(source, change)

        watch = MonitoringWatch(
            connection.noted_access(),
            _places(connection, store or ()),
            every / 1000,
            report,
            gone,
            events.incident,
        )
        opened.callback(watch.close)
        if once:
            watch.look_once(patience.COMMAND)
            looks, now = watch.looks, now_ms()
            answer = looks.answer(now, __version__)
            if out is None:
                sys.stdout.write(answer.decode())
            else:
                replace_file(out, answer)
            down = looks.down(now)
            for source in down:
                say(source.trouble or f"{source.kind} {source.place} was not read in time")
            if down:
                raise typer.Exit(1)
        else:
            _serve(watch, listener, token_of(TOKEN, token_file))


def _places(connection: Connection, store: Sequence[str]) -> MonitoredPlaces:
    from breakglass.services.monitoring.watching import MonitoredPlaces

    found = places_of(connection, store)
    metastores = () if found.metastore is None else (found.metastore,)
    return MonitoredPlaces(found.backups, found.checkpoints, metastores)


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file at *path* at once: a reader sees the old content or the new.

    Raises StorageError: it cannot be written; the old file is as it was.
    """
    try:
        # node_exporter reads files that end with .prom: the one beside does not.
        replace_regular(path, content, FILE_MODE)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder that can"
        ) from error


def _serve(watch: MonitoringWatch, listener: HttpListener, token: str) -> None:
    """Serve until a signal. Raises UsageError where it cannot listen."""
    from breakglass.console.memory import collect_often, give_memory_back
    from breakglass.console.web.listener import PATH, metrics_application, serve_until_signal

    give_memory_back()
    collect_often()
    application = metrics_application(lambda: watch.looks.answer(now_ms(), __version__), token)

    def started(bound: int) -> None:
        say(f"Serving {listener.url(bound, PATH)}")
        watch.start()

    asyncio.run(serve_until_signal(application, listener, started))
    say("The exporter has ended.")
