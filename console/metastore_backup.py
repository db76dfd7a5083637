"""`breakglass metastore backup`: the live backup of KLIP-31, with an eye on the topic itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.metastore_options import ServerConfig, ServiceId, reaching, service_settings
from breakglass.console.options import AsJsonLines, connected, with_log_format
from breakglass.console.output import say
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.metastore.backup_run import BackupOutcome
    from breakglass.services.metastore.events import Event
    from breakglass.services.metastore.settings import MetastoreSettings


class OnDivergence(StrEnum):
    """What a topic that differs from its backup is met with."""

    NEW_FILE = "new-file"
    FAIL = "fail"


@with_log_format
@connected
def backup(
    connection: Connection,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", "--location", metavar="DIR", help="Folder of the backups, on this machine."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep watching until a signal asks to stop.")
    ] = False,
    on_divergence: Annotated[
        OnDivergence,
        typer.Option(
            help="When topic and backup differ: begin a new file, or fail as ksqlDB does."
        ),
    ] = OnDivergence.NEW_FILE,
    as_json: AsJsonLines = False,
) -> None:
    """Back up a command topic, one line of key:value for each command (KLIP-31).

    The topic is compared with the newest backup of the service. New commands are appended; a new
    file begins where topic and backup differ. While the command runs, it raises an alarm within two
    seconds when a setting would delete commands, when records are deleted, and when the topic is
    deleted or recreated. Nothing is restored or created. Ends with 1 after an alarm, when the topic
    has less than the backup, or when a command is not one that a restore accepts: it is kept as it
    is.
    """
    settings = service_settings(service_id, config)
    if not settings.enabled:
        told = f"Backups are off ({settings.why}), so nothing was done: --service-id makes one."
        if as_json:
            print(json.dumps({"schema": 1, "topic": settings.topic, "enabled": False}))
        say(told)
        return
    outcome = _run(
        reaching(connection, config),
        settings,
        _folder(settings, store),
        follow=follow,
        fail=on_divergence is OnDivergence.FAIL,
        tell=_telling(as_json=as_json),
    )
    if as_json:
        print(json.dumps({"schema": 1, "topic": settings.topic, **asdict(outcome)}))
    else:
        file = outcome.file or "no file"
        refused = ""
        if outcome.refused:
            refused = f"; verify and restore refuse {outcome.refused:,} lines of it"
        new = f"{outcome.appended:,} of them new"
        if outcome.lacking:
            new += f", {outcome.lacking:,} of them not in the topic"
        print(f"{file}  {outcome.commands + outcome.lacking:,} commands, {new}{refused}")
    raise typer.Exit(1 if outcome.alarms or outcome.shorter or outcome.refused else 0)


def _run(
    connection: Connection,
    settings: MetastoreSettings,
    folder: Path,
    *,
    follow: bool,
    fail: bool,
    tell: Callable[[Event], None],
) -> BackupOutcome:
    from breakglass.console.stop_signal import StopSignal
    from breakglass.services.metastore.backup_run import BackupJob, run_backup

    access = connection.access()
    job = BackupJob(settings.topic, folder, settings.style, follow, fail)
    with StopSignal() as stop:
        stop.armed()
        return run_backup(access, job, tell, lambda: stop.requested)


def _folder(settings: MetastoreSettings, store: str | None) -> Path:
    from breakglass.services.metastore.settings import default_folder, local_folder

    if store is not None:
        return local_folder(store)
    return settings.location or default_folder()


def _telling(*, as_json: bool) -> Callable[[Event], None]:
    from breakglass.services.metastore.events import document

    def tell(event: Event) -> None:
        if as_json:
            sys.stdout.write(json.dumps(document(event)) + "\n")
            sys.stdout.flush()
        else:
            say(f"{'ALARM: ' if event.kind == 'alarm' else ''}{event}")

    return tell
