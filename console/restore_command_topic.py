"""The program `ksql-restore-command-topic`: ksqlDB's own options and words, and our restore.

Here `--yes`, or the typed "yes", is the consent, as ksqlDB has it. It is not enough for a backup
that is empty or does not begin with every command of the topic: its phrase has to be given as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import StopSignal, run_app
from breakglass.console.guarded import GuardedCommand
from breakglass.console.metastore_log import SkipTerminate
from breakglass.console.metastore_restore import say_plan
from breakglass.console.option_values import Consent
from breakglass.console.options import Phrases
from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.errors import BreakglassError, ConsentMissing
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.metastore.restore.execution import RestoredMetastore
    from breakglass.services.metastore.restore.plan import RestoreSource
    from breakglass.services.metastore.settings import KsqlServerConfig

T = TypeVar("T")
app = new_app()
BAD_FILE = 2


@app.command()
def restore_command_topic(
    backup_file: Annotated[Path, typer.Argument(metavar="BACKUP-FILE", help="File of the backup.")],
    config_file: Annotated[
        Path, typer.Option("--config-file", metavar="FILE", help="ksql-server.properties.")
    ],
    skip_incompatible: Annotated[
        bool,
        typer.Option(
            "--skip-incompatible-commands", "-s", help="Leave out commands that cannot be read."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help='Answer "yes" to the question, without a terminal.')
    ] = False,
    skip_terminate_cluster: SkipTerminate = False,
    consent: Phrases = None,
) -> None:
    """Delete the command topic and restore it from a backup, as ksqlDB's program of that name.

    The current topic is backed up to a file first. Commands get their old offsets where the side
    file of the backup has them, and become visible all at once. A backup that is empty, or lacks
    commands of the topic, also needs --consent, whatever --yes says.
    """
    from breakglass.services.metastore.settings import read_server_config

    for file in (config_file, backup_file):
        if not file.exists():
            say(f"File does not exist: {file}")
            raise typer.Exit(BAD_FILE)
        if not file.is_file():
            say(f"Invalid file: {file}")
            raise typer.Exit(BAD_FILE)
    server = read_server_config(config_file)
    if not (yes or _agreed()):
        return
    source = _loaded(backup_file, skip_incompatible, skip_terminate_cluster)
    print("Restoring command topic ...")
    began = time.monotonic()
    phrases = tuple(consent or ())
    done = _attempt("Failed restoring command topic.", lambda: _restored(server, source, phrases))
    if not done.verified:
        say(f"Failed restoring command topic.\nError = {'; '.join(done.differences[:3])}")
        raise typer.Exit(1)
    print(f"Restore process completed in {_ms(began)} ms.\n")
    if done.snapshot:
        print(f"The commands that the topic had before are in {done.snapshot}")
    print("You need to restart the ksqlDB server to re-load the command topic.")


def _agreed() -> bool:
    print("Restoring the command topic will DELETE your actual metadata.")
    print("Continue [yes or no] (default: no)? ", end="", flush=True)
    return sys.stdin.readline().strip().lower() == "yes"


def _loaded(file: Path, skip_incompatible: bool, skip_terminate: bool) -> RestoreSource:
    from breakglass.services.metastore.restore.plan import Skips, read_source

    print("Loading backup file ...")
    began = time.monotonic()
    skips = Skips(skip_incompatible, skip_terminate)
    source = _attempt(
        "Failed loading backup file.", lambda: read_source(file, skips, as_ksqldb=True)
    )
    if skip_incompatible:
        print(f"{len(source.skipped)} incompatible command(s) skipped from backup file.")
    print(f"Backup ({len(source.commands)} records) loaded in memory in {_ms(began)} ms.\n")
    return source


def _restored(
    server: KsqlServerConfig, source: RestoreSource, phrases: tuple[str, ...]
) -> RestoredMetastore:
    from breakglass.services.connection.sources import ConnectionOptions
    from breakglass.services.metastore.acts.command_topic import SNAPSHOTS, RestoreCommandTopic

    connection = Connection(ConnectionOptions(), "auto", True).with_file(server.client_file)
    act = RestoreCommandTopic(lambda: source, server.settings, source.file.parent / SNAPSHOTS)
    with StopSignal() as stop:
        command = GuardedCommand(act, Consent(implied=True), connection, stop=stop)
        frozen = command.freeze()
        say_plan(frozen.plan)
        if frozen.plan.lost or frozen.plan.shortage:
            Consent(phrases).require([asked.phrase for asked in frozen.asked])
        done: RestoredMetastore = command.carry_out(frozen, write=True).value
    return done


def _attempt(told: str, act: Callable[[], T]) -> T:
    try:
        return act()
    except ConsentMissing:
        raise
    except BreakglassError as error:
        say(told)
        say(f"Error = {inert(str(error))}")
        raise typer.Exit(1) from None


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def main() -> int:
    """The program `ksql-restore-command-topic`; returns the exit code."""
    return run_app(app, "ksql-restore-command-topic")
