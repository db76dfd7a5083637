"""From connection options to clients; nothing that can change a cluster is made before `power`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from breakglass.console.output import say
from breakglass.services import patience
from breakglass.services.errors import ReadOnly, UsageError
from breakglass.services.state_folder import state_folder

if TYPE_CHECKING:
    from breakglass.services.connection.sources import ClientFile, ConnectionOptions
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.session import Power, ReadAccess


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
