"""Which ksqlDB service a command is about: named by its id, or by its server's own properties."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.output import say
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.metastore.settings import MetastoreSettings

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
    from breakglass.services.errors import UsageError

    if None not in (file, old):
        raise UsageError("The backup is named twice: name it once, as an argument.")
    return file or old


def service_settings(service_id: str | None, config: Path | None) -> MetastoreSettings:
    """What the options say of the service.

    Raises:
        UsageError: neither is given, or both.
        BadConnectionSettings: the file cannot be used.
    """
    from breakglass.services.errors import UsageError
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
