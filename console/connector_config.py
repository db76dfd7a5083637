"""`--connector-config`: a backup or a restore with the properties of Kafka Backup's connectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.output import say
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.topic_backup.connector import ConnectorKind, ConnectorSettings

ConnectorFile = Annotated[
    Path | None,
    typer.Option(
        "--connector-config",
        metavar="FILE",
        help="Properties of Kafka Backup's connector; options win over its keys.",
    ),
]


def connector(
    file: Path | None, kind: ConnectorKind, connection: Connection
) -> tuple[ConnectorSettings, Connection]:
    """What *file* says, and the connection with its client settings; nothing without a file.

    Says on stderr which keys of the file have no effect.

    Raises BadConnectionSettings: the file cannot be read, or a value of it is refused.
    """
    from breakglass.services.topic_backup.connector import ConnectorSettings, read_connector

    if file is None:
        return ConnectorSettings(), connection
    found, client = read_connector(file, kind)
    for remark in found.remarks:
        say(remark)
    options = connection.options
    if client.properties and (options.command_config or options.profile):
        winner = "--command-config" if options.command_config else "--profile"
        say(f"{file.name}: {winner} says how to connect, so cluster.* has no effect.")
    return found, connection.with_file(client)


def place_named(store: str | None, found: ConnectorSettings, key: str) -> str:
    """The address of the backup: by *store*, or else by *found*, in which it has the name *key*.

    Raises UsageError: neither names it.
    """
    from breakglass.services.errors import UsageError

    place = store or found.store
    if place is None:
        raise UsageError(
            f"No backup is named: give --store, or --connector-config with {key} in it."
        )
    return place
