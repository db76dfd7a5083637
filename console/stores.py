"""The places of backups that a front end shows: those of `--store`, and those of a profile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.options import PLACE
from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.connection.profiles import default_folder, load_profile
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from breakglass.services.topic_backup.connector import ConnectorKind, ConnectorSettings
    from breakglass.services.topic_backup.store.blobs import Key

StoreAddresses = Annotated[
    list[str] | None, typer.Option("--store", metavar="[KIND:]URL", help=PLACE)
]


@dataclass(frozen=True, slots=True)
class NamedStores:
    """The places of backups that are shown."""

    backups: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    metastore: Path | None = None
    key: Key | None = None
    """Of encrypted topic backups."""


def stores_in(given: Sequence[str]) -> NamedStores:
    """The places that `--store` names, by the kind before the first colon: `diff`'s own words.

    An address without one of these kinds is a place of topic backups.

    Raises UsageError: two folders of metastore backups are named.
    """
    found: dict[str, list[str]] = {"backup": [], "checkpoint": [], "metastore": []}
    for text in given:
        kind, _, address = text.partition(":")
        if kind in found and address:
            found[kind].append(address)
        else:
            found["backup"].append(text)
    if len(found["metastore"]) > 1:
        raise UsageError("--store names two folders of metastore backups: name one.")
    metastore = next(map(Path, found["metastore"]), None)
    return NamedStores(tuple(found["backup"]), tuple(found["checkpoint"]), metastore)


def places_of(connection: Connection, given: Sequence[str]) -> NamedStores:
    """The places that `--store` names, those of the profile, and this user's metastore backups.

    The user's own folder of metastore backups counts only if it exists.

    Raises: UsageError, BadConnectionSettings.
    """
    from breakglass.services.metastore.settings import default_folder as metastore_folder

    named, own = stores_in(given), metastore_folder()
    return NamedStores(
        tuple(dict.fromkeys((*named.backups, *profiles_backups(connection)))),
        named.checkpoints,
        named.metastore or (own if own.is_dir() else None),
    )


def profiles_backups(connection: Connection) -> tuple[str, ...]:
    """Places of backups that the profile names.

    Raises: BadConnectionSettings.
    """
    from breakglass.services.connection.sources import ConnectionOptions

    name = connection.options.profile or ConnectionOptions.from_environment(os.environ).profile
    return load_profile(name, default_folder()).backups if name else ()


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
    place = store or found.store
    if place is None:
        raise UsageError(
            f"No backup is named: give --store, or --connector-config with {key} in it."
        )
    return place
