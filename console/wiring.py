"""From options to clients and to places of backups: those of `--store`, and those of a profile.

Nothing that can change a cluster is made before `power`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.output import say
from breakglass.services import patience
from breakglass.services.connection.profiles import default_folder, load_profile
from breakglass.services.errors import ReadOnly, UsageError
from breakglass.services.state_folder import state_folder

if TYPE_CHECKING:
    from breakglass.services.connection.sources import ClientFile, ConnectionOptions
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.session import Power, ReadAccess
    from breakglass.services.topic_backup.connector import ConnectorKind, ConnectorSettings
    from breakglass.services.topic_backup.store.blobs import Key


@dataclass(frozen=True, slots=True)
class Connection:
    """How a command reaches its cluster, and whether it may change it."""

    options: ConnectionOptions
    native_rpc: str = "auto"
    write: bool = False
    own: bool = False
    """Only the options count: the environment and its profile are of another cluster."""
    client_file: ClientFile | None = None
    """The client settings of a connector's or a server's file; options win over them."""

    def __post_init__(self) -> None:
        if self.native_rpc not in ("auto", "off"):
            from breakglass.services.kafka.wire.native_rpc import native_key

            native_key(self.native_rpc)

    @property
    def named(self) -> bool:
        """Whether the command line itself names a cluster, not the environment."""
        given = self.options
        return bool(given.bootstrap_server or given.profile or given.command_config)

    @property
    def addressed(self) -> bool:
        """Whether anything names a cluster: the command line, or the environment."""
        from breakglass.services.connection.sources import ConnectionOptions

        given = ConnectionOptions.from_environment(os.environ)
        set_there = given.bootstrap_server or given.profile or given.command_config
        return self.named or bool(set_there and not self.own)

    def armed(self) -> Connection:
        return replace(self, write=True)

    def with_file(self, client_file: ClientFile | None) -> Connection:
        """The same connection, with the settings of *client_file* where options say nothing."""
        return replace(self, client_file=client_file)

    def to(self, bootstrap_server: str | None, command_config: str | None) -> Connection:
        """The connection to another cluster than the one that options or environment name.

        Raises UsageError: the options name that one, too.
        """
        if self.named:
            raise UsageError(
                "--to-bootstrap-server and --to-command-config name the only cluster that is "
                "asked: leave --bootstrap-server, --command-config and --profile out."
            )
        there = replace(
            self.options, bootstrap_server=bootstrap_server, command_config=command_config
        )
        return replace(self, options=there, own=True)

    def access(self) -> ReadAccess:
        """What reads the cluster; its settings are read now.

        Raises: BadConnectionSettings, MalformedInput, StorageError.
        """
        from breakglass.services.connection.endpoint import KnownAddresses
        from breakglass.services.connection.sources import connection_settings, without_variables
        from breakglass.services.session import ReadAccess

        environ = without_variables(os.environ) if self.own else os.environ
        settings = connection_settings(self.options, environ, client_file=self.client_file)
        known = KnownAddresses(settings.bootstrap_servers, state_folder(say) / "addresses")
        return ReadAccess(settings, self.native_rpc, known=known)

    def noted_access(self) -> ReadAccess:
        """The same, once what the settings give to note is said."""
        access = self.access()
        for note in access.settings.notes:
            say(note)
        return access

    @contextmanager
    def reading(
        self, client_id: str | None = None, *, within: float | None = None
    ) -> Iterator[ReadClient]:
        """A client that can read, closed at the end; all its answers come *within* these seconds.

        What follows the last of them has a little more. With a *client_id* of its own it is a
        second client, and the notes on the settings are not repeated.
        """
        access = self.noted_access() if client_id is None else self.access()
        with access.reading(client_id) as client:
            if within is not None:
                client.sender.finish_by(deadline_after(within + patience.GRACE))
            yield client

    def cluster_id(self, seconds: float) -> str:
        """The id of the cluster, which has *seconds* to tell it. Raises Unreachable."""
        with self.reading() as client:
            return client.describe(deadline_after(seconds)).cluster_id

    def require_write(self, doing: str) -> None:
        """Refuse *doing* in a read-only session, before anything that can mutate exists.

        Raises ReadOnly: `--write` was not given.
        """
        if not self.write:
            raise ReadOnly(f"{doing} changes the cluster: add --write")

    def power(self, doing: str, access: ReadAccess | None = None) -> Power:
        """What can change the cluster, as *access* reads it.

        Raises ReadOnly: `--write` was not given.
        """
        self.require_write(doing)
        from breakglass.services.session import Power

        return Power(access or self.access())


def deadline_after(seconds: float) -> Deadline:
    """A deadline for requests; it is imported with Kafka's clients."""
    from breakglass.services.kafka.wire.deadline import Deadline

    return Deadline.after(seconds)


PLACE = "A place of backups: a folder, or s3://BUCKET/PREFIX."
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
