"""`breakglass metastore submit`: a statement is written, or handed to a ksqlDB server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.metastore_log import StatementText, mended_statement
from breakglass.console.metastore_options import (
    ServerConfig,
    ServiceId,
    reaching,
    service_settings,
)
from breakglass.console.options import AsJson, connected_for_writing, duration
from breakglass.console.output import print_json
from breakglass.console.wiring import Connection
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.metastore.acts.submit import HandedStatement, HandToServer
    from breakglass.services.metastore.ksql_server import KsqlServer
    from breakglass.services.metastore.log.validator import NothingToDo, Planned
    from breakglass.services.metastore.log.writer import Submitted

FROM_ENVIRONMENT = "BREAKGLASS_KSQL_PASSWORD"
LARGEST_PASSWORD = 4096

HandOverTo = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Hand the statement to this ksqlDB server (http://HOST:8088).",
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
        duration(
            "--timeout",
            example="60s",
            help="How long the submission may take.",
            bare="s",
            least_ms=1000,
            shown="60s",
        ),
    ] = 60_000,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Validate a statement and write it to the command topic, by the transactional protocol.

    Only one writer commits at a time; other writers are fenced and start again. A refused statement
    writes nothing and fences nobody. CREATE STREAM, CREATE TABLE and CREATE TYPE are written with
    the plan that servers execute; DROP, TERMINATE, PAUSE and RESUME as servers write them. A
    statement that needs more than that, such as CREATE STREAM ... AS SELECT, is refused without
    --server, which lets a ksqlDB server plan and write it; the topic is then read to confirm it.
    Ends with 4 when it is unknown whether the statement was written.
    """
    from breakglass.services.errors import UsageError
    from breakglass.services.metastore.acts.submit import HandToServer, SubmitStatement

    statement = mended_statement(statement)
    chosen = ksql_server(server, server_user, server_password_file, server_ca)
    settings = service_settings(service_id, config)
    reached, agreed = reaching(connection, config), Consent(tuple(consent or ()))
    if chosen is None:
        act = SubmitStatement(settings.service_id, statement, timeout / 1000, without_plan)
        _write(GuardedCommand(act, agreed, reached), reached, without_plan, as_json)
    elif without_plan:
        raise UsageError("--without-plan writes without a server: leave out one of the two.")
    else:
        handed = HandToServer(settings.service_id, statement, chosen, timeout / 1000)
        _hand_over(handed, reached, agreed, as_json)


def _write(
    command: GuardedCommand[Planned | NothingToDo],
    connection: Connection,
    without_plan: bool,
    as_json: bool,
) -> None:
    from breakglass.services.errors import Refused
    from breakglass.services.metastore.acts.submit import SubmitStatement
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


def _hand_over(act: HandToServer, connection: Connection, consent: Consent, as_json: bool) -> None:
    command = GuardedCommand(act, consent, connection)
    frozen = command.freeze()
    connection.require_write(act.doing)
    ending = command.carry_out(frozen, write=True)
    done: HandedStatement = ending.value
    if as_json:
        print_json({"schema": 1, **done._asdict()})
    else:
        print(inert(ending.text))
    raise typer.Exit(1 if done.failed else 0)


def ksql_server(
    url: str | None, user: str | None, password_file: Path | None, ca: Path | None
) -> KsqlServer | None:
    """The server that the options name; None without --server.

    Raises:
        UsageError: the address cannot be used, or there is no password for the user, or two.
        Refused: others may read the file of the password.
    """
    from breakglass.services.errors import UsageError
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
        chosen = _password_in(password_file)
    if chosen is None:
        raise UsageError(
            f"{user} has no password: set {FROM_ENVIRONMENT}, or add --server-password-file."
        )
    return KsqlServer(server_url(url), user, chosen, ca)


def _password_in(path: Path) -> str:
    from breakglass.services.errors import Refused, UsageError
    from breakglass.services.regular_file import open_regular

    try:
        with open_regular(path) as file:
            # Of the open file: its name may lead to another file a moment later.
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Refused(f"{path} can be read by other users: `chmod 600` it")
            content = file.read(LARGEST_PASSWORD + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): check its name.") from None
    if len(content) > LARGEST_PASSWORD:
        raise UsageError(f"{path} has more than {LARGEST_PASSWORD:,} bytes, and is no password.")
    return content.decode("utf-8", "replace").rstrip("\r\n")
