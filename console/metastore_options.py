"""Which ksqlDB service a command is about: named by its id, or by its server's own properties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.metastore.settings import MetastoreSettings

ServiceId = Annotated[
    str | None, typer.Option("--service-id", metavar="S", help="ksql.service.id of the service.")
]
BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
SkipTerminate = Annotated[
    bool, typer.Option("--skip-terminate-cluster", help="Leave out TERMINATE CLUSTER.")
]
ServerConfig = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Its ksql-server.properties, in place of that."),
]


def service_settings(service_id: str | None, config: Path | None) -> MetastoreSettings:
    """What the options say of the service.

    Raises:
        UsageError: neither is given, or both.
        BadConnectionSettings: the file cannot be used.
    """
    from breakglass.services.errors import UsageError
    from breakglass.services.metastore.settings import MetastoreSettings, read_settings

    if (service_id is None) == (config is None):
        raise UsageError("Name the service by --service-id or by --config, one of the two.")
    return MetastoreSettings(service_id or "") if config is None else read_settings(config)


def reaching(connection: Connection, config: Path | None) -> Connection:
    """The connection; where no option says how to connect, the server's own properties do."""
    options = connection.options
    given = options.bootstrap_server, options.command_config, options.profile
    if config is None or any(given):
        return connection
    return replace(connection, options=replace(options, command_config=str(config)))
