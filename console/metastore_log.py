"""`breakglass ksql show`, and `ksql submit --dry-run`: the command topic as a log.

Also which ksqlDB service a command is about: named by its id, or by its server's own properties.
"""

from __future__ import annotations

import json
import sys
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
def show(
    connection: Connection,
    file: FileInsteadOfTopic = None,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    history: Annotated[
        bool, typer.Option("--history", help="List every command in order, with its statement.")
    ] = False,
    lines: Annotated[
        bool,
        typer.Option(
            "--lines",
            help="Print the lines of FILE for kafka-console-producer, as KLIP-31 restores them.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show streams, tables, types and queries, as the commands rebuild them.

    An object whose topic is gone is listed with the reason. Exits with 1 if a command cannot be
    applied; the state before that command is shown. With --lines, a backup that
    kafka-console-producer would split wrongly is refused before anything is printed: a name with
    ':' in it, or a value with a line end. `ksql restore` restores such a backup, and the offsets.
    """
    if lines:
        if file is None or history or as_json:
            raise UsageError(
                "--lines prints the lines of a backup: name its FILE, and no other form"
            )
        print_lines(file)
    elif history:
        print_history(connection, file, service_id, config, as_json=as_json)
    else:
        print_objects(connection, file, service_id, config, as_json=as_json)


def print_lines(file: Path) -> None:
    """Print *file* as kafka-console-producer reads it."""
    from breakglass.services.metastore.lines import producible_lines
    from breakglass.services.metastore.side_file import verify_backup

    verify_backup(file).require_unchanged()
    for line in producible_lines(file):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def print_objects(
    connection: Connection,
    file: Path | None,
    service_id: str | None,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print what the commands amount to; exits with 1 if they cannot be read on."""
    metastore, found, wrong = _rebuilt(connection, service_id, config, file)
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


def print_history(
    connection: Connection,
    file: Path | None,
    service_id: str | None,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print every command; exits with 1 at one that cannot be read."""
    entries: list[AppliedCommand] = []
    if file is not None:
        degraded = _replayed(file, entries).degraded
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


def print_validated(
    connection: Connection, statement: str, settings: MetastoreSettings, *, as_json: bool
) -> None:
    """Print whether *statement* could be submitted now. Raises UsageError: it could not."""
    from breakglass.services.metastore.log.reader import CommandLog
    from breakglass.services.metastore.log.validator import NameValidator
    from breakglass.services.metastore.log.writer import TopicsNow

    with (
        CommandLog(connection.access(), settings.service_id) as log,
        connection.reading() as client,
    ):
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
