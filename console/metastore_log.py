"""`breakglass metastore list`, `history`, `validate`: the command topic as a log.

Also which ksqlDB service a command is about: named by its id, or by its server's own properties.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.options import AsJson, connected
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.errors import UsageError
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.metastore.log.reader import (
        AppliedCommand,
        CommandLog,
        Degraded,
        Replay,
    )
    from breakglass.services.metastore.log.validator import NothingToDo, Planned
    from breakglass.services.metastore.metastore import Metastore
    from breakglass.services.metastore.settings import MetastoreSettings

SHOWN = 60
"""Characters of a statement in a table; JSON has all of it."""

StatementText = Annotated[
    str, typer.Argument(metavar="STATEMENT", help="A ksqlDB statement, such as 'DROP STREAM A;'")
]


ServiceId = Annotated[
    str | None, typer.Option("--service-id", metavar="S", help="ksql.service.id of the service.")
]
BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
FileInsteadOfTopic = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A backup to read in place of the topic.")
]
OldFrom = Annotated[Path | None, typer.Option("--from", hidden=True, help="As the argument FILE.")]
SkipTerminate = Annotated[
    bool, typer.Option("--skip-terminate-cluster", help="Leave out TERMINATE CLUSTER.")
]
ServerConfig = Annotated[
    Path | None,
    typer.Option(
        "--config-file",
        "--server-config",
        "--config",
        metavar="FILE",
        help="The service's ksql-server.properties, in place of --service-id.",
    ),
]


def one_file(file: Path | None, old: Path | None) -> Path | None:
    """The file of a backup, whichever way it was named. Raises UsageError where both are."""
    if None not in (file, old):
        raise UsageError("The backup is named twice: name it once, as an argument.")
    return file or old


def service_settings(service_id: str | None, config: Path | None) -> MetastoreSettings:
    """What the options say of the service.

    Raises:
        UsageError: neither is given, or both.
        BadConnectionSettings: the file cannot be used.
    """
    from breakglass.services.metastore.settings import MetastoreSettings, read_server_config

    if (service_id is None) == (config is None):
        raise UsageError("Name the service by --service-id or by --config-file, one of the two.")
    if config is None:
        return MetastoreSettings(service_id or "")
    return read_server_config(config).settings


def reaching(connection: Connection, config: Path | None) -> Connection:
    """The connection; what its options leave open the server's own properties say.

    Says on stderr which keys of the file have no effect.

    Raises BadConnectionSettings: the file cannot be used.
    """
    from breakglass.services.metastore.settings import read_server_config

    if config is None:
        return connection
    server = read_server_config(config)
    for remark in server.remarks:
        say(remark)
    return connection.with_file(server.client_file)


@connected
def list_objects(
    connection: Connection,
    file: FileInsteadOfTopic = None,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    old_from: OldFrom = None,
    as_json: AsJson = False,
) -> None:
    """List streams, tables, types and queries, as the commands rebuild them.

    An object whose topic is gone is listed with the reason. Ends with 1 where a command cannot be
    applied; then the state before that command is shown.
    """
    metastore, found, wrong = _rebuilt(connection, service_id, config, one_file(file, old_from))
    degraded = None if found is None else str(found)
    if as_json:
        told = metastore.document() | {"digest": metastore.digest}
        document = {"schema": 1, "metastore": told, "inconsistencies": wrong, "degraded": degraded}
        print_json(document)
    else:
        rows = [
            (one.kind.value, name, one.topic or "-", one.query or "-", wrong.get(name, ""))
            for name, one in sorted(metastore.sources.items())
        ]
        rows += [("type", name, "-", "-", "") for name in sorted(metastore.types)]
        if rows:
            print_table(OBJECTS, rows)
        queries = [
            (
                query.id,
                "paused" if query.paused else "running",
                ", ".join(query.sources),
                query.sink or "-",
            )
            for query in sorted(metastore.queries.values(), key=lambda query: query.offset)
        ]
        if queries:
            print()
            print_table(QUERIES, queries)
        counted = f"{len(metastore.sources):,} streams and tables, {len(metastore.types):,} types"
        say(f"{counted}, {len(queries):,} queries; digest {metastore.digest}")
    if degraded is not None:
        say(f"not read on: {degraded}")
    raise typer.Exit(1 if degraded else 0)


@connected
def history(
    connection: Connection,
    file: FileInsteadOfTopic = None,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    old_from: OldFrom = None,
    as_json: AsJson = False,
) -> None:
    """List every command in order, with its statement.

    Ends with 1 at a command that cannot be read.
    """
    entries: list[AppliedCommand] = []
    backup = one_file(file, old_from)
    if backup is not None:
        degraded = _replayed(backup, entries).degraded
    else:
        settings = service_settings(service_id, config)
        log = _read(reaching(connection, config), settings.service_id, entries)
        degraded = log.degraded
    if as_json:
        commands = [
            {
                "offset": entry.offset,
                "timestamp_ms": entry.timestamp_ms,
                "id": str(entry.id),
                "statement": entry.command.statement,
            }
            for entry in entries
        ]
        print_json({"schema": 1, "commands": commands, "degraded": degraded})
    elif entries:
        rows = (
            (
                f"{entry.offset:,}",
                time_text(entry.timestamp_ms),
                str(entry.id),
                bounded(" ".join(entry.command.statement.split()), SHOWN),
            )
            for entry in entries
        )
        print_table(HISTORY, rows)
    if degraded is not None:
        say(f"not read on: {degraded}")
    raise typer.Exit(1 if degraded else 0)


@connected
def validate(
    connection: Connection,
    statement: StatementText,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a statement could be submitted now.

    Ends with 2 if it could not.
    """
    from breakglass.services.metastore.log.reader import CommandLog
    from breakglass.services.metastore.log.validator import NameValidator
    from breakglass.services.metastore.log.writer import TopicsNow

    statement = mended_statement(statement)
    settings = service_settings(service_id, config)
    reached = reaching(connection, config)
    with CommandLog(reached.access(), settings.service_id) as log, reached.reading() as client:
        log.catch_up(deadline_after(patience.JOB))
        validator = NameValidator(TopicsNow(client))
        planned = validator.validate(statement, log.metastore.snapshot(), {})
    if as_json:
        print_json({"schema": 1, **_plan_document(planned)})
    else:
        print(inert(_plan_text(planned)))


def _rebuilt(
    connection: Connection, service_id: str | None, config: Path | None, file: Path | None
) -> tuple[Metastore, Degraded | None, dict[str, str]]:
    """The metastore, why it was not read on, and what is wrong with each object."""
    from breakglass.services.metastore.log.validator import inconsistencies
    from breakglass.services.metastore.log.writer import TopicsNow

    if file is not None:
        replay = _replayed(file, [])
        return replay.metastore, replay.degraded, {}
    reached = reaching(connection, config)
    log = _read(reached, service_settings(service_id, config).service_id, [])
    with reached.reading() as client:
        wrong = inconsistencies(log.metastore, TopicsNow(client))
    return log.metastore, log.degraded, wrong


def _replayed(file: Path, entries: list[AppliedCommand]) -> Replay:
    from breakglass.services.metastore.log.reader import Replay
    from breakglass.services.metastore.restore.plan import Skips, read_source

    replay = Replay(entries.append)
    source = read_source(file, Skips(), only_read=True)
    for record in source.records:
        replay.take(record)
    return replay


def _read(connection: Connection, service_id: str, entries: list[AppliedCommand]) -> CommandLog:
    from breakglass.services.metastore.log.reader import read_whole

    return read_whole(connection.access(), service_id, patience.JOB, entries.append)


def _plan_document(planned: Planned | NothingToDo) -> dict[str, Any]:
    from breakglass.services.metastore.log.validator import NothingToDo

    if isinstance(planned, NothingToDo):
        return {"needed": False, "reason": planned.reason}
    return {
        "needed": True,
        "id": str(planned.id),
        "command": json.loads(planned.value),
        "query_id": planned.query_id,
        "executable": planned.executable,
        "needs_server": planned.needs_server or None,
    }


def _plan_text(planned: Planned | NothingToDo) -> str:
    from breakglass.services.metastore.log.validator import NothingToDo

    if isinstance(planned, NothingToDo):
        return planned.reason
    query = f", begins query {planned.query_id}" if planned.query_id else ""
    runs = "" if planned.executable else f"; it needs a ksqlDB server: {planned.needs_server}"
    return f"valid: {planned.id}{query}{runs}"


def mended_statement(statement: str) -> str:
    """*statement* as ksqlDB's grammar has it; says what was changed."""
    from breakglass.services.metastore.statements.plans import mend

    mended = mend(statement)
    for note in mended.notes:
        say(note)
    return mended.text


HISTORY = columns(">Offset", "Time", "Command", "Statement")
OBJECTS = columns("Kind", "Name", "Topic", "Query", "Wrong")
QUERIES = columns("Query", "State", "Reads", "Writes")
