"""The command `breakglass ksql`: the command topic of ksqlDB, its backups, its restore.

Here are the commands that work on the file of a backup alone: `verify` and `compact`.

`breakglass ksql backup`: the live backup of KLIP-31, with an eye on the topic itself.

`breakglass ksql submit`: a statement is written, or handed to a ksqlDB server.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import StopSignal, say_ready
from breakglass.console.guarded import GuardedCommand
from breakglass.console.metastore_log import (
    BackupFile,
    ServerConfig,
    ServiceId,
    StatementText,
    mended_statement,
    print_validated,
    reaching,
    service_settings,
    show,
)
from breakglass.console.metastore_restore import restore
from breakglass.console.options import (
    NO_CONSENT,
    PLACE,
    AsJson,
    AsJsonLines,
    EventOptions,
    GivenConsent,
    connected,
    connected_for_writing,
    waits,
    with_log_format,
)
from breakglass.console.output import print_json, say
from breakglass.console.wiring import Connection
from breakglass.services.connection.properties import read_private
from breakglass.services.errors import Refused, UsageError
from breakglass.services.model import Unknown
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.metastore.acts.command_topic import HandedStatement
    from breakglass.services.metastore.events import Event
    from breakglass.services.metastore.ksql_server import KsqlServer
    from breakglass.services.metastore.log.validator import NothingToDo, Planned
    from breakglass.services.metastore.log.writer import Submitted
    from breakglass.services.metastore.side_file import MetastoreVerification


FROM_ENVIRONMENT = "BREAKGLASS_KSQL_PASSWORD"
HandOverTo = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="A ksqlDB server, as http://HOST:8088.",
    ),
]
ServerUser = Annotated[
    str | None, typer.Option("--server-user", metavar="NAME", help="User of the server.")
]
ServerPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--server-password-file",
        metavar="FILE",
        help=f"Password of the user, readable by you alone. By default, {FROM_ENVIRONMENT}.",
    ),
]
ServerCa = Annotated[
    Path | None,
    typer.Option(
        "--server-ca", metavar="FILE", help="Authorities of the server's certificate, as PEM."
    ),
]


@connected_for_writing
def submit(
    connection: Connection,
    statement: StatementText,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    without_plan: Annotated[
        bool,
        typer.Option(
            "--without-plan", help="Write the statement although ksqlDB servers cannot run it."
        ),
    ] = False,
    server: HandOverTo = None,
    server_user: ServerUser = None,
    server_password_file: ServerPasswordFile = None,
    server_ca: ServerCa = None,
    timeout: Annotated[
        int,
        waits("60s", least_ms=1000),
    ] = 60_000,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what would be done, and change nothing."),
    ] = False,
    consent: GivenConsent = NO_CONSENT,
    as_json: AsJson = False,
) -> None:
    """Validate a statement and write it to the command topic, by the transactional protocol.

    Only one writer commits at a time; other writers are fenced and start again. A refused statement
    writes nothing and fences no writer. CREATE STREAM, CREATE TABLE and CREATE TYPE are written
    with the plan that servers execute; DROP, TERMINATE, PAUSE and RESUME as servers write them. A
    statement that needs more than that, such as CREATE STREAM ... AS SELECT, is refused without
    --server, which lets a ksqlDB server plan and write it; the topic is then read to confirm it.
    Exits with 4 when it is unknown whether the statement was written.
    """
    from breakglass.services.metastore.acts.command_topic import HandToServer, SubmitStatement

    statement = mended_statement(statement)
    chosen = ksql_server(server, server_user, server_password_file, server_ca)
    settings = service_settings(service_id, config)
    reached = reaching(connection, config)
    if dry_run:
        print_validated(reached, statement, settings, as_json=as_json)
        return
    if chosen is None:
        act = SubmitStatement(settings.service_id, statement, timeout / 1000, without_plan)
        _write(GuardedCommand(act, consent, reached), reached, without_plan, as_json)
    elif without_plan:
        raise UsageError("--without-plan writes without a server: leave out one of the two.")
    else:
        handed = HandToServer(settings.service_id, statement, chosen, timeout / 1000)
        command = GuardedCommand(handed, consent, reached)
        frozen = command.freeze()
        reached.require_write(handed.doing)
        ending = command.carry_out(frozen, write=True)
        done: HandedStatement = ending.value
        if as_json:
            print_json({"schema": 1, **done._asdict()})
        else:
            print(inert(ending.text))
        raise typer.Exit(1 if done.failed else 0)


def _write(
    command: GuardedCommand[Planned | NothingToDo],
    connection: Connection,
    without_plan: bool,
    as_json: bool,
) -> None:
    from breakglass.services.metastore.acts.command_topic import SubmitStatement
    from breakglass.services.metastore.log.validator import NothingToDo

    frozen = command.freeze()
    planned = frozen.plan
    connection.require_write(SubmitStatement.doing)
    if isinstance(planned, NothingToDo):
        print(inert(planned.reason))
        return
    if not (planned.executable or without_plan):
        raise Refused(
            f"{planned.id} needs a ksqlDB server: {planned.needs_server}. Servers from 0.8 on end "
            "at a command without a plan: add --server http://HOST:8088, which hands the statement "
            "to a server, or --without-plan"
        )
    done: Submitted = command.carry_out(frozen, write=True).value
    if as_json:
        document = {"id": str(done.id), "offset": done.offset, "query_id": done.query_id}
        told = {"attempts": done.attempts, "seconds": done.seconds}
        print_json({"schema": 1, **document, **told})
    else:
        print(inert(f"{done.id} is at offset {done.offset:,}" if done.id else done.reason))


def ksql_server(
    url: str | None, user: str | None, password_file: Path | None, ca: Path | None
) -> KsqlServer | None:
    """The server that the options name; None without --server.

    Raises:
        UsageError: the address cannot be used, or there is no password for the user, or two.
        Refused: others may read the file of the password.
    """
    from breakglass.services.metastore.ksql_server import KsqlServer, server_url

    chosen = os.environ.pop(FROM_ENVIRONMENT, None)
    if url is None:
        if user or password_file or ca:
            raise UsageError("--server-user, --server-password-file and --server-ca need --server.")
        return None
    if user is None:
        if password_file is not None:
            raise UsageError("--server-password-file needs --server-user.")
        return KsqlServer(server_url(url), ca=ca)
    if password_file is not None:
        if chosen is not None:
            raise UsageError(
                f"{FROM_ENVIRONMENT} and --server-password-file: leave one of them out."
            )
        chosen = read_private(password_file).rstrip("\r\n")
    if chosen is None:
        raise UsageError(
            f"{user} has no password: set {FROM_ENVIRONMENT}, or add --server-password-file."
        )
    return KsqlServer(server_url(url), user, chosen, ca)


class OnDivergence(StrEnum):
    """What a topic that differs from its backup is met with."""

    NEW_FILE = "new-file"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class FollowOptions(EventOptions):
    """Whether a backup goes on, and who gets its events."""

    follow: Annotated[
        bool, typer.Option("--follow", help="Keep watching until a signal asks to stop.")
    ] = False


NOT_FOLLOWED = FollowOptions()


@with_log_format
@connected
def backup(
    connection: Connection,
    service_id: ServiceId = None,
    config: ServerConfig = None,
    store: Annotated[
        str | None,
        typer.Option("--store", "--location", metavar="DIR", help=PLACE),
    ] = None,
    on_divergence: Annotated[
        OnDivergence,
        typer.Option(
            help="When topic and backup differ: begin a new file, or fail as ksqlDB does."
        ),
    ] = OnDivergence.NEW_FILE,
    following: FollowOptions = NOT_FOLLOWED,
    as_json: AsJsonLines = False,
) -> None:
    """Back up a command topic, one line of key:value for each command (KLIP-31).

    The topic is compared with the newest backup of the service. New commands are appended; a new
    file begins where topic and backup differ. While the command runs, it raises an alarm within two
    seconds when a setting would delete commands, when records are deleted, and when the topic is
    deleted or recreated. Nothing is restored or created. Exits with 1 after an alarm, if the topic
    has less than the backup, or when a command is not one that a restore accepts: it is kept as it
    is.
    """
    from breakglass.services.metastore.backup_run import BackupJob, run_backup
    from breakglass.services.metastore.settings import default_folder, local_folder

    settings = service_settings(service_id, config)
    if not settings.enabled:
        told = f"Backups are off ({settings.why}), so nothing was done: --service-id makes one."
        if as_json:
            print(json.dumps({"schema": 1, "topic": settings.topic, "enabled": False}))
        say(told)
        return
    print_event = _telling(as_json=as_json)
    folder = settings.location or default_folder() if store is None else local_folder(store)
    fail = on_divergence is OnDivergence.FAIL
    job = BackupJob(settings.topic, folder, settings.style, following.follow, fail)
    access = reaching(connection, config).access()
    with following.sending("ksql backup", lasting=following.follow) as events, StopSignal() as stop:

        def tell(event: Event) -> None:
            print_event(event)
            events.heard(event.kind, str(event), settings.topic)

        stop.armed()
        outcome = run_backup(access, job, tell, lambda: stop.requested)
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


def _telling(*, as_json: bool) -> Callable[[Event], None]:
    from breakglass.services.metastore.events import document

    def tell(event: Event) -> None:
        if as_json:
            sys.stdout.write(json.dumps(document(event)) + "\n")
            sys.stdout.flush()
        else:
            say(f"{'ALARM: ' if event.kind == 'alarm' else ''}{event}")
        say_ready()

    return tell


def verify(
    file: BackupFile,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="HEX",
            help="The digest that is expected; another one is refused.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every line of a backup, and compare its commands with those of its side file.

    Lines are checked as a restore checks them. The chain of hashes in the side file finds bit rot,
    commands that are missing or were added, and any change that did not rewrite the chain as well.
    A digest that you noted elsewhere also finds a change that rewrote the chain. Exits with 1 when
    something is wrong, or when the file holds no command; with 4 when no side file shows whether
    these are all commands.
    """
    from breakglass.services.metastore.side_file import verify_backup

    verified = verify_backup(file)
    matches = digest is None or digest.lower() == verified.digest
    whole = verified.whole if matches else False
    if as_json:
        print_json(_document(verified, whole, matches=matches))
    else:
        _print(verified, whole, matches=matches)
    raise typer.Exit(4 if isinstance(whole, Unknown) else 0 if whole else 1)


def _document(
    verified: MetastoreVerification, whole: bool | Unknown, *, matches: bool
) -> dict[str, Any]:
    header = verified.header
    return {
        "schema": 1,
        "file": verified.file,
        "bytes": verified.bytes,
        "commands": verified.commands,
        "whole": whole,
        "findings": verified.findings,
        "untold": verified.untold,
        "chain": {
            "noted": verified.noted,
            "changed_lines": verified.changed,
            "missing": verified.missing,
            "unnoted_bytes": verified.unnoted_bytes,
            "digest": verified.digest,
            "matches": matches,
            "unread": verified.side,
        },
        "topic": None if header is None else header.topic,
        "topic_id": None if header is None else header.topic_id,
        "diverged": None if header is None else header.diverged or None,
    }


def _print(verified: MetastoreVerification, whole: bool | Unknown, *, matches: bool) -> None:
    for finding in verified.findings:
        say(str(finding))
    for line in verified.changed:
        entry = f"line {line} of the backup, or its entry in the side file,"
        say(f"{entry} was changed" if line else "the side file's first line was changed")
    if not verified.commands:
        say("the file holds no command")
    if verified.untold:
        say(f"{verified.untold:,} more findings are not shown")
    if verified.missing:
        say(f"{verified.missing:,} commands are missing at the end, the side file notes them")
    if verified.unnoted_bytes:
        say(f"the last {verified.unnoted_bytes:,} bytes are not in the side file")
    if not matches:
        say("the digest is another: lines or the side file were changed or added since")
    if isinstance(whole, Unknown):
        say(whole.reason)
        state = "NOT PROVEN COMPLETE"
    else:
        state = "the same as in its side file: whole" if whole else "NOT WHOLE"
    print(f"{state}  {verified.commands:,} commands  digest {verified.digest or '-'}")


def compact(
    file: BackupFile,
    out: Annotated[
        Path,
        typer.Option("--out", "--to", metavar="DIR", help="A new file or folder to write."),
    ],
    as_json: AsJson = False,
) -> None:
    """Write a smaller backup, without commands that were terminated or superseded.

    Objects, ids and offsets stay as they are. Both backups are replayed, and the new file is
    written only if they become the same metastore. The topic is not changed; `ksql restore`
    restores the new file.
    """
    from breakglass.services.metastore.live_backup import compact as compacted
    from breakglass.services.metastore.live_backup import write_compacted
    from breakglass.services.metastore.restore.plan import Skips, read_source

    source = read_source(file, Skips(), only_read=True)
    told = compacted(source.records)
    written = write_compacted(source, told, out)
    if as_json:
        document = {"file": written, "commands_before": told.before, "digest": told.digest}
        kept = {"commands": len(told.records), "dropped": told.dropped, "stripped": told.stripped}
        print_json({"schema": 1, **document, **kept})
    else:
        print(f"{written}  {len(told.records):,} of {told.before:,} commands")
        say(f"{len(told.stripped):,} kept their object and lost a query that has ended")
        say(f"both become the metastore {told.digest}")


app = new_app("Back up, verify, restore, read and write the command topic of ksqlDB.")
app.command()(backup)
app.command()(verify)
app.command()(restore)
app.command()(show)
app.command()(submit)
app.command()(compact)


@app.callback()
def ksql() -> None:
    """Back up, verify, restore, read and write the command topic of ksqlDB."""
