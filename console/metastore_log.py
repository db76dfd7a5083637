"""`breakglass metastore list`, `history`, `validate`, `submit`: the command topic as a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.metastore_options import ServerConfig, ServiceId, reaching, service_settings
from breakglass.console.options import AsJson, connected, connected_for_writing
from breakglass.console.output import Column, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.metastore.log.reader import AppliedCommand, CommandLog, Replay
    from breakglass.services.metastore.log.validator import NothingToDo, Planned
    from breakglass.services.metastore.log.writer import Submitted
    from breakglass.services.metastore.metastore import Metastore

READ_SECONDS = 60.0
SHOWN = 60
"""Characters of a statement in a table; JSON has all of it."""
DOING = "submitting a statement"

Backup = Annotated[
    Path | None, typer.Option("--from", metavar="FILE", help="A backup in place of the topic.")
]
StatementText = Annotated[
    str, typer.Argument(metavar="STATEMENT", help="One statement of ksqlDB, such as DROP STREAM A;")
]


@connected
def list_objects(
    connection: Connection,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    file: Backup = None,
    as_json: AsJson = False,
) -> None:
    """Streams, tables, types and queries, as the commands rebuild them.

    Objects whose topics are gone are listed with the reason; nothing is skipped for that. Ends with
    1 where a command cannot be applied: what is shown is the state before it.
    """
    metastore, degraded, wrong = _rebuilt(connection, service_id, config, file)
    if as_json:
        told = metastore.document() | {"digest": metastore.digest}
        document = {"schema": 1, "metastore": told, "inconsistencies": wrong, "degraded": degraded}
        print_json(document)
    else:
        _print_metastore(metastore, wrong)
    if degraded is not None:
        say(f"not read on: {degraded}")
    raise typer.Exit(1 if degraded else 0)


@connected
def history(
    connection: Connection,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    file: Backup = None,
    as_json: AsJson = False,
) -> None:
    """Every command in its order, with its statement. Ends with 1 at one that cannot be read."""
    entries: list[AppliedCommand] = []
    if file is not None:
        degraded = _replayed(file, entries).degraded
    else:
        settings = service_settings(service_id, config)
        log = _read(reaching(connection, config), settings.service_id, entries)
        degraded = log.degraded
    if as_json:
        print_json(
            {"schema": 1, "commands": [_entry(one) for one in entries], "degraded": degraded}
        )
    elif entries:
        print_table(HISTORY, (_row(one) for one in entries))
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
    """Say whether a statement could be submitted now. Ends with 2 where it could not."""
    settings = service_settings(service_id, config)
    planned = _planned(reaching(connection, config), settings.service_id, statement)
    if as_json:
        print_json({"schema": 1, **_plan_document(planned)})
    else:
        print(inert(_plan_text(planned)))


@connected_for_writing
def submit(
    connection: Connection,
    statement: StatementText,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    without_plan: Annotated[
        bool,
        typer.Option("--without-plan", help="Write it though ksqlDB's own servers cannot run it."),
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="How long it may take.")
    ] = 60.0,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Validate a statement and write it to the command topic, by the transactional protocol.

    One writer at a time: others are fenced, and begin again. A refused statement writes nothing
    and fences nobody. Objects and queries need a plan that only a ksqlDB server makes: they are
    refused without --without-plan. DROP, TERMINATE, PAUSE and RESUME are written as servers do.
    Ends with 4 when it is unknown whether the statement was written.
    """
    from breakglass.services.errors import Refused
    from breakglass.services.metastore.acts.submit import SubmitStatement
    from breakglass.services.metastore.log.validator import NothingToDo

    settings = service_settings(service_id, config)
    reached = reaching(connection, config)
    act = SubmitStatement(settings.service_id, statement, timeout)
    command = GuardedCommand(act, Consent(tuple(consent or ())), reached)
    frozen = command.freeze()
    planned = frozen.plan
    reached.require_write(act.doing)
    if isinstance(planned, NothingToDo):
        print(inert(planned.reason))
        return
    if not (planned.executable or without_plan):
        raise Refused(
            f"{planned.id} needs a plan that only a ksqlDB server makes, and servers from 0.8 on "
            "end at a command without one: submit it to a server, or add --without-plan"
        )
    done: Submitted = command.carry_out(frozen, write=True).value
    if as_json:
        document = {"id": str(done.id), "offset": done.offset, "query_id": done.query_id}
        told = {"attempts": done.attempts, "seconds": done.seconds}
        print_json({"schema": 1, **document, **told})
    else:
        print(inert(f"{done.id} is at offset {done.offset:,}" if done.id else done.reason))


def _rebuilt(
    connection: Connection, service_id: str | None, config: Path | None, file: Path | None
) -> tuple[Metastore, str | None, dict[str, str]]:
    """The metastore, why it was not read on, and what is wrong with each object."""
    from breakglass.services.metastore.log.topics import TopicsNow
    from breakglass.services.metastore.log.validator import inconsistencies

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
    for one in source.records:
        replay.take(one)
    return replay


def _read(connection: Connection, service_id: str, entries: list[AppliedCommand]) -> CommandLog:
    from breakglass.services.connection.security import confluent_config
    from breakglass.services.metastore.log.reader import read_whole

    access = connection.access()
    clients = confluent_config(access.settings)
    return read_whole(access, clients, service_id, READ_SECONDS, entries.append)


def _planned(connection: Connection, service_id: str, statement: str) -> Planned | NothingToDo:
    from breakglass.services.connection.security import confluent_config
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.metastore.log.reader import CommandLog
    from breakglass.services.metastore.log.topics import TopicsNow
    from breakglass.services.metastore.log.validator import NameValidator

    access = connection.access()
    with (
        CommandLog(access, confluent_config(access.settings), service_id) as log,
        connection.reading() as client,
    ):
        log.catch_up(Deadline.after(READ_SECONDS))
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
    }


def _plan_text(planned: Planned | NothingToDo) -> str:
    from breakglass.services.metastore.log.validator import NothingToDo

    if isinstance(planned, NothingToDo):
        return planned.reason
    query = f", begins query {planned.query_id}" if planned.query_id else ""
    runs = "" if planned.executable else ", which only a ksqlDB server can plan"
    return f"valid: {planned.id}{query}{runs}"


HISTORY = (Column("Offset", right=True), Column("Time"), Column("Command"), Column("Statement"))
OBJECTS = (Column("Kind"), Column("Name"), Column("Topic"), Column("Query"), Column("Wrong"))
QUERIES = (Column("Query"), Column("State"), Column("Reads"), Column("Writes"))


def _row(one: AppliedCommand) -> tuple[str, str, str, str]:
    text = bounded(" ".join(one.command.statement.split()), SHOWN)
    return f"{one.offset:,}", time_text(one.timestamp_ms), str(one.id), text


def _entry(one: AppliedCommand) -> dict[str, Any]:
    return {
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "id": str(one.id),
        "statement": one.command.statement,
    }


def _print_metastore(metastore: Metastore, wrong: dict[str, str]) -> None:
    rows = [
        (one.kind.value, name, one.topic or "-", one.query or "-", wrong.get(name, ""))
        for name, one in sorted(metastore.sources.items())
    ]
    rows += [("type", name, "-", "-", "") for name in sorted(metastore.types)]
    if rows:
        print_table(OBJECTS, rows)
    queries = [
        (one.id, "paused" if one.paused else "running", ", ".join(one.sources), one.sink or "-")
        for one in sorted(metastore.queries.values(), key=lambda one: one.offset)
    ]
    if queries:
        print()
        print_table(QUERIES, queries)
    counted = f"{len(metastore.sources):,} streams and tables, {len(metastore.types):,} types"
    say(f"{counted}, {len(queries):,} queries; digest {metastore.digest}")
