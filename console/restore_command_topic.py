"""Puts a command topic back: `breakglass ksql restore`, and ksqlDB's `ksql-restore-command-topic`.

The program has ksqlDB's own options and words, and our restore. Its `--yes`, or the typed "yes",
is the consent, as ksqlDB has it. It is not enough for a backup that is empty or does not begin with
every command of the topic: its phrase has to be given as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from breakglass.console.cli import new_app
from breakglass.console.exits import StopSignal, run_app
from breakglass.console.guarded import GuardedCommand
from breakglass.console.metastore_log import BackupFile, ServerConfig, SkipTerminate, reaching
from breakglass.console.option_values import Consent
from breakglass.console.options import (
    NO_CONSENT,
    AsJson,
    DryRun,
    GivenConsent,
    Phrases,
    connected_for_writing,
)
from breakglass.console.output import print_json, say
from breakglass.console.wiring import Connection
from breakglass.services.errors import BreakglassError, ConsentMissing, UsageError
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.metastore.restore.execution import RestoredMetastore
    from breakglass.services.metastore.restore.plan import MetastoreRestorePlan, RestoreSource
    from breakglass.services.metastore.settings import KsqlServerConfig, MetastoreSettings

MOST_SAID = 20


@connected_for_writing
def restore(
    connection: Connection,
    backup: BackupFile,
    service_id: Annotated[
        str | None, typer.Option(metavar="S", help="ksql.service.id of the service.")
    ] = None,
    config: ServerConfig = None,
    skip_incompatible: Annotated[
        bool,
        typer.Option(
            "--skip-incompatible",
            "--skip-incompatible-commands",
            help="Leave out lines that cannot be read.",
        ),
    ] = False,
    skip_terminate_cluster: SkipTerminate = False,
    compact_offsets: Annotated[
        bool,
        typer.Option(
            "--compact-offsets", help="Number offsets from 0 without gaps, in one transaction."
        ),
    ] = False,
    server: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A ksqlDB server, as http://HOST:8088."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--snapshots",
            "--store",
            metavar="DIR",
            help="Folder for a backup of the current topic (default: before-restore beside FILE).",
        ),
    ] = None,
    dry_run: DryRun = False,
    consent: GivenConsent = NO_CONSENT,
    as_json: AsJson = False,
) -> None:
    """Delete the command topic and restore it from a backup, every command at its old offset.

    Stop every ksqlDB server of the service first, and start them afterwards. Every line of the
    backup is checked first. The current topic is backed up to a file, which can be restored in the
    same way. All commands become visible at once; then they are read back and compared. If the
    restore is killed, run the same command again to continue. Each --server is asked, by /info,
    whether it still runs.
    """
    from breakglass.services.metastore.acts.command_topic import SNAPSHOTS, RestoreCommandTopic
    from breakglass.services.metastore.ksql_server import server_url
    from breakglass.services.metastore.restore.plan import Skips, read_source

    settings = service_of_backup(backup, service_id, config)
    reached = reaching(connection, config)
    skips = Skips(skip_incompatible, skip_terminate_cluster)
    act = RestoreCommandTopic(
        partial(read_source, backup, skips, compact=compact_offsets),
        settings,
        store or backup.parent / SNAPSHOTS,
        tuple(map(server_url, server or ())),
    )
    with StopSignal() as stop:
        command = GuardedCommand(act, consent, reached, stop=stop)
        frozen = command.freeze()
        if dry_run:
            print_json(document(frozen.plan))
            return
        reached.require_write(act.doing)
        say_plan(frozen.plan)
        done: RestoredMetastore = command.carry_out(frozen, write=True).value
    if as_json:
        print_json({"schema": 1, "restored": done})
    else:
        print(summary(done))
    raise typer.Exit(0 if done.verified else 1)


def service_of_backup(file: Path, service_id: str | None, config: Path | None) -> MetastoreSettings:
    """Which service is restored: as the options say, else as the backup itself does.

    Raises:
        UsageError: neither tells, or the options contradict each other.
        BadConnectionSettings: the file cannot be used.
    """
    from breakglass.services.metastore.settings import (
        MetastoreSettings,
        read_server_config,
        service_of,
    )
    from breakglass.services.metastore.side_file import SUFFIX, side_header

    if config is not None:
        settings = read_server_config(config).settings
        if service_id not in (None, settings.service_id):
            raise UsageError(
                f"--service-id {service_id} is not the ksql.service.id of {config}: give one."
            )
        return settings
    found = service_id
    if not found:
        header = side_header(file.with_name(file.name + SUFFIX))
        named = file.name.removeprefix("backup_").rpartition("_")[0]
        found = service_of(named if header is None else header.topic)
    if found is None:
        raise UsageError(f"{file.name} does not tell its service: add --service-id.")
    return MetastoreSettings(found)


def say_plan(plan: MetastoreRestorePlan) -> None:
    """Tell what would be done, what is given up, and what is known of servers."""
    source, present = plan.source, plan.present
    say(f"{source.file.name}: {len(source.commands):,} commands, offsets {source.offsets.value}")
    _say_some([str(line) for line in source.skipped], "left out: ")
    _say_some([str(note) for note in source.notes], "")
    if present is None:
        say(plan.creation)
    elif plan.done:
        say(f"{plan.topic} holds these very commands already")
    else:
        say(
            f"{plan.topic} holds {present.commands:,} commands and will be deleted; "
            f"{present.lost:,} of them are not in the backup"
        )
    if plan.shortage:
        say(plan.shortage)
    for server in plan.servers.seen:
        say(f"a server seems to run: {server}")
    for server in plan.servers.unseen:
        say(f"? {server}")
    from breakglass.services.metastore.restore.plan import changed_query_ids, reusable_query_ids

    changed = [
        f"{key} began a query with number {before} and begins it with {after}"
        for key, before, after in changed_query_ids(source)
    ]
    _say_some(changed, "")
    _say_some(list(reusable_query_ids(source)), "query id that will be given again: ")


def _say_some(told: Sequence[str], before: str) -> None:
    for line in told[:MOST_SAID]:
        say(before + line)
    if len(told) > MOST_SAID:
        say(f"and {len(told) - MOST_SAID:,} more")


def document(plan: MetastoreRestorePlan) -> dict[str, Any]:
    """The plan as one JSON object."""
    from breakglass.services.metastore.restore.plan import changed_query_ids, reusable_query_ids

    source = plan.source
    return {
        "schema": 1,
        "phrase": plan.phrase,
        "cluster_id": plan.cluster_id,
        "topic": plan.topic,
        "file": source.file,
        "commands": len(source.commands),
        "offsets": source.offsets,
        "skipped": source.skipped,
        "notes": source.notes,
        "present": plan.present,
        "replicas": plan.replicas,
        "done": plan.done,
        "servers_seen": plan.servers.seen,
        "servers_unknown": plan.servers.unseen,
        "query_ids_changed": changed_query_ids(source),
        "query_ids_given_again": reusable_query_ids(source),
    }


def summary(done: RestoredMetastore) -> str:
    """How it ended, on one line."""
    if done.already:
        return f"{done.topic}  {done.commands:,} commands are there already, nothing was done"
    before = f"; the commands before are in {done.snapshot}" if done.snapshot else ""
    return f"{done.topic}  {done.commands:,} commands restored, {done.state}{before}"


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
