"""`breakglass bundle capture`: a cluster as it is known now, in one file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.evidence import say_acls
from breakglass.console.exits import StopSignal, say_ready
from breakglass.console.option_values import names_in
from breakglass.console.options import (
    NO_EVENTS,
    SECONDS,
    AsJson,
    EventOptions,
    GoneBrokers,
    Seconds,
    VerifyContents,
    connected,
    duration,
    size,
)
from breakglass.console.output import print_json, print_lines, say
from breakglass.console.stores import StoreAddresses, places_of
from breakglass.console.wiring import Connection
from breakglass.services.errors import BreakglassError, TimedOut, Unreachable, UsageError
from breakglass.services.session import Effort

if TYPE_CHECKING:
    from breakglass.services.bundle.capture import BackupPlaces, Capture

app = new_app()

SHOWN = 10
"""How many unread parts are printed one by one."""
GIGABYTE = 1 << 30


@app.command("capture")
@connected
def capture(
    connection: Connection,
    out: Annotated[
        Path,
        typer.Option("--out", "--to", metavar="FILE", help="A new file or folder to write."),
    ],
    gone: GoneBrokers = (),
    seconds: Seconds = SECONDS,
    verify_contents: VerifyContents = Effort.BUDGET,
    store: StoreAddresses = None,
    records: Annotated[
        int,
        typer.Option(
            "--records",
            min=0,
            max=200,
            help="At most N records from the point where logs diverge.",
        ),
    ] = 100,
    contents_of: Annotated[
        list[str] | None,
        typer.Option(
            "--contents-of",
            metavar="A,B*",
            help="Topics whose records keep the beginnings of keys, values and header values.",
        ),
    ] = None,
    redact: Annotated[
        list[str] | None,
        typer.Option(
            "--redact",
            metavar="NAME,*NAME*",
            help="JSON fields and headers to black out; contents that are not JSON are left out.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the cluster, and keep the last bundles.")
    ] = False,
    every_ms: Annotated[
        int,
        duration(
            "--every",
            example="5m",
            help="Time from one run to the next.",
            least_ms=10_000,
            shown="5m",
        ),
    ] = 300_000,
    keep: Annotated[int, typer.Option("--keep", min=2, max=1000, help="Keep the newest N.")] = 24,
    keep_bytes: Annotated[
        int,
        size(
            "--keep-size",
            example="1GB",
            help="With --watch: the size of all bundles that are kept.",
            shown="1GB",
        ),
    ] = GIGABYTE,
    on_event: EventOptions = NO_EVENTS,
    as_json: AsJson = False,
) -> None:
    """Save what is known of the cluster in one file, for `breakglass bundle open`; only reads.

    The bundle has the metadata, the evidence of replicas, settings without secrets, offsets of
    groups, the status of backups, recent journals, and where replicas diverge. What cannot be read
    is in its manifest, with the reason. Keys and values of records stay out unless --contents-of
    names their topics.
    """
    from breakglass.services.bundle.capture import Capture, CaptureAsked
    from breakglass.services.bundle.following import Keeping
    from breakglass.services.bundle.records import ContentRules

    if redact and not contents_of:
        raise UsageError("--redact is for the contents that --contents-of asks for: give both.")
    patterns = tuple(name.lower() for name in names_in(redact))
    asked = CaptureAsked(
        duration=seconds,
        gone=gone,
        places=_places(connection, store or ()),
        rules=ContentRules(names_in(contents_of), patterns),
        records_each=records,
    )
    access = replace(connection.noted_access(), contents=verify_contents)
    with ExitStack() as opened:
        events = opened.enter_context(on_event.sending("bundle capture", lasting=watch))
        capturing = Capture(access, asked)
        opened.callback(capturing.close)
        if watch:
            from breakglass.services.bundle.following import BundleFolder, follow

            def told(sentence: str) -> None:
                say(sentence)
                say_ready()

            ended = threading.Event()
            with BundleFolder(out, Keeping(keep, keep_bytes)) as folder, StopSignal():
                follow(capturing, folder, every_ms / 1000, ended.wait, told, events.look)
        else:
            _once(capturing, out, as_json=as_json)


def _places(connection: Connection, stores: Sequence[str]) -> BackupPlaces:
    from breakglass.services.bundle.capture import BackupPlaces

    found = places_of(connection, stores)
    there = found.metastore is not None and found.metastore.is_dir()
    return BackupPlaces(found.backups, found.checkpoints, found.metastore if there else None)


def _once(capturing: Capture, out: Path, *, as_json: bool) -> None:
    """One bundle, of a cluster that may be unreadable."""
    from breakglass.services.incident.incident import Incident

    found: Incident | BreakglassError
    try:
        found = capturing.settle(say)
    except Unreachable as error:
        if not (error.retriable or isinstance(error, TimedOut)):
            raise
        found = error
    maker = capturing.bundle(found)
    try:
        manifest = maker.write(out)
    except FileExistsError:
        raise UsageError(f"{out} exists already and is kept: name another file.") from None
    for part in manifest.unread[:SHOWN]:
        say(f"? {part}")
    if len(manifest.unread) > SHOWN:
        say(
            f"? {len(manifest.unread) - SHOWN:,} more: `breakglass bundle open {out} --list` shows "
            "all"
        )
    say_acls(sorted(maker.missing_acls))
    if as_json:
        print_json(manifest.to_json())
    else:
        print_lines([str(out)])
