"""`breakglass console`, which is also `breakglass` alone: opens the console on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.look import Look, LookOptions, colors_left_to_the_theme, decide_look
from breakglass.console.option_values import key_of
from breakglass.console.options import (
    NO_EVENTS,
    EventOptions,
    GoneBrokers,
    KeyFrom,
    connected_for_writing,
)
from breakglass.console.output import say
from breakglass.console.stores import NamedStores, StoreAddresses, profiles_backups, stores_in
from breakglass.console.wiring import Connection
from breakglass.services.connection.profiles import default_folder
from breakglass.services.errors import BreakglassError, UsageError
from breakglass.services.session import Effort
from breakglass.services.state_folder import state_folder

if TYPE_CHECKING:
    from breakglass.console.app import BreakglassApp
    from breakglass.screens.context import Context
    from breakglass.services.browse.schemas import Schemas
    from breakglass.services.health.backups import MonitoredBackup
    from breakglass.services.incident.incident import Incident

app = new_app()

FRAMES_PER_SECOND = "240"
THREAD_SECONDS = 0.001
"""How long one thread computes while others want to."""

SCREENS = (
    "overview",
    "offline",
    "plan",
    "journal",
    "backups",
    "browse",
    "metastore",
    "checkpoints",
)
"""The modes of the app, which is imported only when it is opened."""

NO_STORES = NamedStores()
AS_FOUND = LookOptions()

OldBackups = Annotated[
    list[str] | None, typer.Option("--backups", hidden=True, help="As --store backup:URL.")
]
OldMetastore = Annotated[
    Path | None, typer.Option("--metastore", hidden=True, help="As --store metastore:DIR.")
]
OldCheckpoints = Annotated[
    list[str] | None, typer.Option("--checkpoints", hidden=True, help="As --store checkpoint:URL.")
]


@app.command("console")
@connected_for_writing
def open_console(
    connection: Connection,
    gone: GoneBrokers = (),
    look: LookOptions = AS_FOUND,
    screen: Annotated[
        str,
        typer.Option(
            "--screen",
            metavar="NAME",
            help=f"First screen: {', '.join(SCREENS)}.",
            autocompletion=lambda: list(SCREENS),
        ),
    ] = "offline",
    store: StoreAddresses = None,
    key: KeyFrom = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            help="Schema registry to decode Avro and Protobuf records with.",
        ),
    ] = None,
    on_event: EventOptions = NO_EVENTS,
    backups: OldBackups = None,
    metastore: OldMetastore = None,
    checkpoints: OldCheckpoints = None,
) -> None:
    """Open the console: see what is offline and what is lost, and act, by keyboard.

    The console is read-only without --write; its header says so. `?` lists the keys of each screen.
    """
    if screen not in SCREENS:
        raise UsageError(f"there is no screen {screen!r}: name one of {', '.join(SCREENS)}")
    if look.theme is not None:
        # What is wrong on any terminal is reported off one, too.
        decide_look(look, default_folder())
    places = stores_in(store or ())
    require_terminal()
    stores = NamedStores(
        (*places.backups, *(backups or ())),
        (*places.checkpoints, *(checkpoints or ())),
        places.metastore or metastore,
        key_of(key),
    )
    decided = prepared_look(look)
    with ExitStack() as opened:
        tell = None
        if on_event != NO_EVENTS:
            tell = opened.enter_context(on_event.sending("console")).look
        context = make_context(connection, gone, decided, stores, schema_registry, tell)
        code = run_console(context, decided, screen)

    from breakglass.console.on_terminal import leave

    leave(code)


def require_terminal() -> None:
    """Refuse to draw where nobody would see it.

    Raises UsageError: stdin or stdout is no terminal, or one that cannot be drawn on.
    """
    drawable = os.environ.get("TERM") != "dumb"
    if not (drawable and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the console needs a terminal: run it in one, or use `breakglass triage --json` in "
            "scripts"
        )


def practise_on(connection: Connection, typed: Callable[[], object] | None = None) -> int:
    """Open the console on a cluster of the lab; *typed* is called for each key.

    Raises: BadConnectionSettings, MalformedInput, StorageError, UsageError.
    """
    look = prepared_look(AS_FOUND)
    return run_console(make_context(connection, (), look), look, SCREENS[1], typed)


def run_console(
    context: Context, look: Look, start: str, typed: Callable[[], object] | None = None
) -> int:
    """Open the console on this terminal until the operator leaves; returns the exit code."""
    from breakglass.console.app import BreakglassApp

    notes = context.access.settings.notes
    return show_console(BreakglassApp, context, look, start, notes, typed=typed)


def prepared_look(options: LookOptions) -> Look:
    """What the console is to look like, once this process is ready to show it.

    To be called before Textual is imported. Raises: UsageError.
    """
    from breakglass.console.memory import give_memory_back, put_off_collecting

    put_off_collecting()
    give_memory_back()
    answer_keys_soon()
    return decide_look(options, default_folder())


def show_console(
    make: type[BreakglassApp],
    context: Context,
    look: Look,
    start: str,
    notices: Sequence[str] = (),
    *,
    typed: Callable[[], object] | None = None,
) -> int:
    """Show a console on this terminal until the operator leaves; returns the exit code.

    *typed* is called for each key.
    """
    from breakglass.console.on_terminal import run_on_terminal

    with colors_left_to_the_theme():
        app = make(
            context,
            theme=look.theme,
            themes=look.themes,
            start=start,
            keys=look.settings.keys,
        )
    for problem in (*look.problems, *notices):
        app.notify(problem, severity="warning", markup=False)
    try:
        return run_on_terminal(
            app, mouse=look.terminal.mouse, state_folder=state_folder(), typed=typed
        )
    finally:
        context.close()
        if app.parting:
            say(app.parting)


def answer_keys_soon() -> None:
    """Let no key wait long; to be called before Textual is imported, which reads its setting once.

    A key may paint in two steps, the list first and then what depends on its cursor: Textual
    leaves up to two frames between them. And it waits for threads that read to give way.
    """
    os.environ.setdefault("TEXTUAL_FPS", FRAMES_PER_SECOND)
    sys.setswitchinterval(THREAD_SECONDS)


def make_context(
    connection: Connection,
    gone: Sequence[int],
    look: Look,
    stores: NamedStores = NO_STORES,
    schema_registry: str | None = None,
    tell: Callable[[Incident | BreakglassError], object] | None = None,
) -> Context:
    """What the screens work with; power only where `--write` was given."""
    from breakglass.console.checkpoint_text import CommandText
    from breakglass.screens.context import REFRESH_SECONDS, Context, Known
    from breakglass.services.backup_watch.watch import BackupWatch
    from breakglass.services.checkpoint.watch import CheckpointWatch
    from breakglass.services.health.monitor import Monitor
    from breakglass.services.incident.watch import IncidentWatch

    access = replace(connection.access(), contents=look.settings.contents or Effort.BUDGET)
    places = tuple(
        dict.fromkeys((*stores.backups, *profiles_backups(connection), *look.settings.backups))
    )
    watch, incidents = BackupWatch(places, key=stores.key), IncidentWatch(access, gone=gone)
    if tell is not None:
        incidents.tell = tell
    return Context(
        access,
        incidents,
        look.terminal,
        CommandText(),
        connection.power("the console", access) if connection.write else None,
        connection.options.profile or "",
        connection.options.words(),
        known=Known(interval=look.settings.refresh_seconds or REFRESH_SECONDS),
        health=Monitor([*([watch] if places else []), *_metastores(stores.metastore)]),
        backups=watch,
        checkpoints=CheckpointWatch(tuple(dict.fromkeys(stores.checkpoints))),
        metastore_backups=stores.metastore,
        key=stores.key,
        schemas=_schemas(schema_registry),
    )


def _schemas(url: str | None) -> Schemas | None:
    """The registry at *url*; what asks it is slow to import, and only there where it is wanted."""
    if url is None:
        return None
    from breakglass.services.browse.schemas import Schemas

    return Schemas(url)


def _metastores(folder: Path | None) -> Iterator[MonitoredBackup]:
    from breakglass.services.metastore.settings import default_folder as data_folder

    place = folder or data_folder()
    if place.is_dir():
        from breakglass.services.metastore.glance import MetastoreGlance

        yield MetastoreGlance(place)
