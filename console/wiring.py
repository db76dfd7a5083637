"""From connection options to clients; nothing that can change a cluster is made before `arm`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console.output import say
from services.errors import ReadOnly, WrongCluster

if TYPE_CHECKING:
    from services.connection.settings import ConnectionSettings
    from services.connection.sources import ConnectionOptions
    from services.kafka.election_client import ElectionClient
    from services.kafka.group_client import GroupClient
    from services.kafka.read_client import ReadClient
    from services.kafka.wire.sender import Sender


@dataclass(frozen=True, slots=True)
class Connection:
    """How a command reaches its cluster, and whether it may change it."""

    options: ConnectionOptions
    native_rpc: str = "auto"
    write: bool = False

    def __post_init__(self) -> None:
        if self.native_rpc not in ("auto", "off"):
            from services.kafka.wire.native_rpc import native_key

            native_key(self.native_rpc)

    def armed(self) -> Connection:
        """The same connection, allowed to change the cluster."""
        return replace(self, write=True)

    @contextmanager
    def reading(self, client_id: str | None = None) -> Iterator[ReadClient]:
        """A client that can read, closed at the end.

        One of a *client_id* of its own is a second one, so what the settings give to note was
        said before.
        """
        from services.kafka.read_client import ReadClient

        settings = self._settings()
        if client_id is None:
            for note in settings.notes:
                say(note)
        else:
            settings = replace(settings, client_id=client_id)
        client = ReadClient(self._sender(settings, frozenset()), settings.listener)
        try:
            yield client
        finally:
            client.close()

    def require_write(self, doing: str) -> None:
        """Refuse *doing* in a read-only session, before anything that can mutate exists.

        Raises:
            ReadOnly: `--write` was not given.
        """
        if not self.write:
            raise ReadOnly(f"{doing} changes the cluster: add --write")

    @contextmanager
    def arm(self, doing: str, cluster_id: str) -> Iterator[ElectionClient]:
        """A client that can hold elections in that cluster, closed at the end.

        Raises:
            ReadOnly: `--write` was not given.
            WrongCluster: the addresses lead to another cluster by now.
        """
        from services.kafka.election_client import ElectionClient
        from services.kafka.wire import api_keys

        with self._armed_sender(doing, cluster_id, api_keys.ELECT) as sender:
            yield ElectionClient(sender)

    @contextmanager
    def arm_groups(self, doing: str, cluster_id: str) -> Iterator[GroupClient]:
        """A client that can move groups' committed offsets, closed at the end.

        Raises:
            ReadOnly: `--write` was not given.
            WrongCluster: the addresses lead to another cluster by now.
        """
        from services.kafka.group_client import GroupClient
        from services.kafka.wire import api_keys

        with self._armed_sender(doing, cluster_id, api_keys.GROUPS) as sender:
            yield GroupClient(sender)

    @contextmanager
    def _armed_sender(self, doing: str, cluster_id: str, power: frozenset[int]) -> Iterator[Sender]:
        """A sender with *power*, once it is known to reach the cluster that was read."""
        self.require_write(doing)
        from services.kafka.read_client import ReadClient
        from services.kafka.wire.deadline import Deadline

        settings = self._settings()
        sender = self._sender(settings, power)
        try:
            deadline = Deadline.after(settings.connect_timeout_ms / 1000)
            found = ReadClient(sender, settings.listener).describe(deadline).cluster_id
            if found != cluster_id:
                raise WrongCluster(
                    f"these addresses lead to cluster {found} now, and {cluster_id} was read: "
                    "check tunnels and names, then start again"
                )
            yield sender
        finally:
            sender.close()

    def _settings(self) -> ConnectionSettings:
        from services.connection.sources import connection_settings

        return connection_settings(self.options)

    def _sender(self, settings: ConnectionSettings, more: frozenset[int]) -> Sender:
        """A sender that lets out reads, KIP-1275's read where it may be used, and *more*."""
        from services.connection.security import ClientSecurity
        from services.kafka.wire import api_keys
        from services.kafka.wire.native_rpc import native_key
        from services.kafka.wire.sender import Sender

        key = native_key(self.native_rpc)
        native = frozenset() if key is None else frozenset({key})
        return Sender(
            settings.bootstrap_servers,
            ClientSecurity(settings),
            api_keys.READ | native | more,
            client_id=settings.client_id,
            broker_addresses=settings.broker_addresses,
            connect_seconds=settings.connect_timeout_ms / 1000,
        )
