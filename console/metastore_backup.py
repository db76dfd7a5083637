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
from breakglass.console.options import connected
from breakglass.console.output import say
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.metastore.backup_job import BackupOutcome
    from breakglass.services.metastore.events import Event
    from breakglass.services.metastore.settings import MetastoreSettings


class OnDivergence(StrEnum):
    """What a topic that differs from its backup is met with."""

    NEW_FILE = "new-file"
    FAIL = "fail"


@connected
def backup(
    connection: Connection,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    location: Annotated[
        str | None,
        typer.Option("--location", metavar="DIR", help="Folder of the backups, on this machine."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until a signal asks to stop.")
    ] = False,
    on_divergence: Annotated[
        OnDivergence,
        typer.Option(help="Where topic and backup differ: begin a new file, or end as ksqlDB."),
    ] = OnDivergence.NEW_FILE,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines; the last one sums up.")
    ] = False,
) -> None:
    """Keep a backup of a command topic, one line of key:value a command (KLIP-31).

    Compares the topic with the newest backup of the service, appends what is new, and begins a new
    file where they differ. The topic is watched: an alarm is raised within two seconds
    of a setting that deletes commands, of deleted records, and of a deleted or recreated topic.
    Nothing is ever restored or created by this command. Ends with 1 after an alarm, or when the
    topic holds less than the backup.
    """
    settings = service_settings(service_id, config)
    if not settings.enabled:
        _say_off(settings, as_json=as_json)
        return
    outcome = _run(
        reaching(connection, config),
        settings,
        _folder(settings, location),
        follow=follow,
        fail=on_divergence is OnDivergence.FAIL,
        tell=_telling(as_json=as_json),
    )
    if as_json:
        print(json.dumps({"schema": 1, "topic": settings.topic, **asdict(outcome)}))
    else:
        print(_summary(outcome))
    raise typer.Exit(1 if outcome.alarms or outcome.shorter else 0)


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
    from breakglass.services.connection.security import confluent_config
    from breakglass.services.metastore.backup_job import BackupJob
    from breakglass.services.metastore.backup_run import run_backup

    access = connection.access()
    job = BackupJob(settings.topic, folder, settings.style, follow, fail)
    with StopSignal() as stop:
        stop.armed()
        return run_backup(
            access, confluent_config(access.settings), job, tell, lambda: stop.requested
        )


def _folder(settings: MetastoreSettings, location: str | None) -> Path:
    from breakglass.services.metastore.settings import default_folder, local_folder

    if location is not None:
        return local_folder(location)
    return settings.location or default_folder()


def _say_off(settings: MetastoreSettings, *, as_json: bool) -> None:
    told = f"Backups are off ({settings.why}), so nothing was done: --service-id makes one."
    if as_json:
        print(json.dumps({"schema": 1, "topic": settings.topic, "enabled": False}))
    say(told)


def _telling(*, as_json: bool) -> Callable[[Event], None]:
    from breakglass.services.metastore.events import document

    def tell(event: Event) -> None:
        if as_json:
            sys.stdout.write(json.dumps(document(event)) + "\n")
            sys.stdout.flush()
        else:
            say(f"{'ALARM: ' if event.kind == 'alarm' else ''}{event}")

    return tell


def _summary(outcome: BackupOutcome) -> str:
    file = outcome.file or "no file"
    return f"{file}  {outcome.commands:,} commands, {outcome.appended:,} of them new"
