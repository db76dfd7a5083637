"""`breakglass metastore list`, `history`, `validate`: the command topic as a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.metastore_options import (
    FileInsteadOfTopic,
    OldFrom,
    ServerConfig,
    ServiceId,
    one_file,
    reaching,
    service_settings,
)
from breakglass.console.options import AsJson, connected
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.metastore.log.reader import AppliedCommand, CommandLog, Replay
    from breakglass.services.metastore.log.validator import NothingToDo, Planned
    from breakglass.services.metastore.metastore import Metastore

SHOWN = 60
"""Characters of a statement in a table; JSON has all of it."""

StatementText = Annotated[
    str, typer.Argument(metavar="STATEMENT", help="A ksqlDB statement, such as 'DROP STREAM A;'")
]


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
    metastore, degraded, wrong = _rebuilt(connection, service_id, config, one_file(file, old_from))
    if as_json:
        told = metastore.document() | {"digest": metastore.digest}
        document = {"schema": 1, "metastore": told, "inconsistencies": wrong, "degraded": degraded}
        print_json(document)
    else:
        rows = [
            (found.kind.value, name, found.topic or "-", found.query or "-", wrong.get(name, ""))
            for name, found in sorted(metastore.sources.items())
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
        print_json(
            {"schema": 1, "commands": [_entry(entry) for entry in entries], "degraded": degraded}
        )
    elif entries:
        print_table(HISTORY, (_row(entry) for entry in entries))
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
    statement = mended_statement(statement)
    settings = service_settings(service_id, config)
    planned = _planned(reaching(connection, config), settings.service_id, statement)
    if as_json:
        print_json({"schema": 1, **_plan_document(planned)})
    else:
        print(inert(_plan_text(planned)))


def _rebuilt(
    connection: Connection, service_id: str | None, config: Path | None, file: Path | None
) -> tuple[Metastore, str | None, dict[str, str]]:
    """The metastore, why it was not read on, and what is wrong with each object."""
    from breakglass.services.metastore.log.validator import inconsistencies
    from breakglass.services.metastore.log.writer import TopicsNow

    if file is not None:
        replay = _replayed(file, [])
        return replay.metastore, _text(replay.degraded), {}
    reached = reaching(connection, config)
    log = _read(reached, service_settings(service_id, config).service_id, [])
    with reached.reading() as client:
        wrong = inconsistencies(log.metastore, TopicsNow(client))
    return log.metastore, _text(log.degraded), wrong


def _text(degraded: object) -> str | None:
    return None if degraded is None else str(degraded)


def _replayed(file: Path, entries: list[AppliedCommand]) -> Replay:
    from breakglass.services.metastore.log.reader import Replay
    from breakglass.services.metastore.restore.source import Skips, read_source

    replay = Replay(entries.append)
    source = read_source(file, Skips(), only_read=True)
    for record in source.records:
        replay.take(record)
    return replay


def _read(connection: Connection, service_id: str, entries: list[AppliedCommand]) -> CommandLog:
    from breakglass.services.metastore.log.reader import read_whole

    return read_whole(connection.access(), service_id, patience.JOB, entries.append)


def _planned(connection: Connection, service_id: str, statement: str) -> Planned | NothingToDo:
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.metastore.log.reader import CommandLog
    from breakglass.services.metastore.log.validator import NameValidator
    from breakglass.services.metastore.log.writer import TopicsNow

    with CommandLog(connection.access(), service_id) as log, connection.reading() as client:
        log.catch_up(Deadline.after(patience.JOB))
        validator = NameValidator(TopicsNow(client))
        return validator.validate(statement, log.metastore.snapshot(), {})


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


def _row(command: AppliedCommand) -> tuple[str, str, str, str]:
    text = bounded(" ".join(command.command.statement.split()), SHOWN)
    return f"{command.offset:,}", time_text(command.timestamp_ms), str(command.id), text


def _entry(command: AppliedCommand) -> dict[str, Any]:
    return {
        "offset": command.offset,
        "timestamp_ms": command.timestamp_ms,
        "id": str(command.id),
        "statement": command.command.statement,
    }
