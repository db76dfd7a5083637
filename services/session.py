"""How a session reaches its cluster: always to read, and to change only with a `Power`.

A read-only session has a `ReadAccess` and nothing else: no object it can reach makes a client
that changes anything. `--verify-contents` says how far the contents of replicas are read before
the replicas are proposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from breakglass.services.connection.endpoint import Endpoint, KnownAddresses
from breakglass.services.connection.settings import ConnectionSettings, Plaintext

if TYPE_CHECKING:
    from breakglass.services.kafka.admin_client import GroupClient, SettingClient, TopicClient
    from breakglass.services.kafka.election_client import ElectionClient
    from breakglass.services.kafka.marker_client import MarkerClient, TransactionEndClient
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.kafka.wire.connection import Security
    from breakglass.services.kafka.wire.sender import Sender


class Effort(StrEnum):
    """The values of ``--verify-contents``."""

    FULL = "full"
    """From log start to log end, however long that takes."""
    BUDGET = "budget"
    """The newest batches first, as far back as the allowance goes."""
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ReadAccess:
    """Makes clients that read."""

    settings: ConnectionSettings
    native_rpc: str = "auto"
    """Whether KIP-1275's own requests are used: ``auto``, ``off`` or an api key."""
    contents: Effort = Effort.BUDGET
    """How far the contents of replicas are read before they are proposed."""
    known: KnownAddresses | None = field(default=None, compare=False)
    """Where brokers are, besides what `settings` say; None: as this access learns it."""

    def __post_init__(self) -> None:
        if self.known is None:
            made = KnownAddresses(self.settings.bootstrap_servers)
            object.__setattr__(self, "known", made)

    @property
    def settings_now(self) -> ConnectionSettings:
        """The settings, with the brokers of the newest metadata among the bootstrap servers."""
        assert self.known is not None
        given = self.settings.bootstrap_servers
        places = {(address.host, address.port) for address in given}
        learned = [at for at in self.known.newest if (at.host, at.port) not in places]
        return replace(self.settings, bootstrap_servers=(*given, *learned))

    def client(self, client_id: str | None = None) -> ReadClient:
        """A new client, which the caller closes; *client_id* in place of the settings' one."""
        from breakglass.services.kafka.read_client import ReadClient

        return ReadClient(_sender(self, frozenset(), client_id), self.settings.listener)

    def sender_at(self, address: Endpoint) -> Sender:
        """A sender of reads to the node at *address*, which the caller closes."""
        settings = replace(self.settings, bootstrap_servers=(address,), broker_addresses={})
        return _sender(replace(self, settings=settings, known=None), frozenset())

    @contextmanager
    def reading(self, client_id: str | None = None) -> Iterator[ReadClient]:
        """A client that is closed at the end."""
        client = self.client(client_id)
        try:
            yield client
        finally:
            client.close()


@dataclass(frozen=True, slots=True)
class Power:
    """Makes clients that change a cluster; exists only in a session begun with ``--write``."""

    access: ReadAccess

    @contextmanager
    def elections(self, cluster_id: str) -> Iterator[ElectionClient]:
        """A client that can hold elections in that cluster, closed at the end.

        Raises:
            WrongCluster: the addresses lead to another cluster by now.
        """
        from breakglass.services.kafka.election_client import ElectionClient
        from breakglass.services.kafka.wire import api_keys

        with self._armed(cluster_id, api_keys.ELECT) as sender:
            yield ElectionClient(sender)

    @contextmanager
    def groups(self, cluster_id: str) -> Iterator[GroupClient]:
        """A client that can move groups' committed offsets, closed at the end.

        Raises:
            WrongCluster: the addresses lead to another cluster by now.
        """
        from breakglass.services.kafka.admin_client import GroupClient
        from breakglass.services.kafka.wire import api_keys

        with self._armed(cluster_id, api_keys.GROUPS) as sender:
            yield GroupClient(sender)

    @contextmanager
    def settings(self, cluster_id: str) -> Iterator[SettingClient]:
        """A client that can write the topic settings that decide elections, closed at the end.

        Raises:
            WrongCluster: the addresses lead to another cluster by now.
        """
        from breakglass.services.kafka.admin_client import SettingClient
        from breakglass.services.kafka.wire import api_keys

        with self._armed(cluster_id, api_keys.SETTINGS) as sender:
            yield SettingClient(sender)

    @contextmanager
    def transaction_ends(self, cluster_id: str) -> Iterator[TransactionEndClient]:
        """A client that can end transactions that nobody will end, closed at the end.

        Raises:
            WrongCluster: the addresses lead to another cluster by now.
        """
        from breakglass.services.kafka.marker_client import TransactionEndClient
        from breakglass.services.kafka.wire import api_keys

        with self._armed(cluster_id, api_keys.TRANSACTION_ENDS) as sender:
            yield TransactionEndClient(sender)

    @contextmanager
    def topics(self, cluster_id: str) -> Iterator[TopicClient]:
        """A client that can create topics and set them up, closed at the end.

        Raises:
            WrongCluster: the addresses lead to another cluster by now.
        """
        from breakglass.services.kafka.admin_client import TopicClient
        from breakglass.services.kafka.wire import api_keys

        with self._armed(cluster_id, api_keys.TOPICS) as sender:
            yield TopicClient(sender)

    @contextmanager
    def command_topic(self, cluster_id: str) -> Iterator[TopicClient]:
        """A client that can put a command topic in another's place, closed at the end.

        Raises:
            WrongCluster: the addresses lead to another cluster by now.
        """
        from breakglass.services.kafka.admin_client import TopicClient
        from breakglass.services.kafka.wire import api_keys

        with self._armed(cluster_id, api_keys.COMMAND_TOPIC) as sender:
            yield TopicClient(sender)

    @contextmanager
    def markers(self, cluster_id: str, *, holding: bool = False) -> Iterator[MarkerClient]:
        """A client that can write the markers of checkpoints, closed at the end.

        With *holding* it can change topics' settings, too: to hold their retention back.

        Raises:
            WrongCluster: the addresses lead to another cluster by now.
        """
        from breakglass.services.kafka.marker_client import MarkerClient
        from breakglass.services.kafka.wire import api_keys

        keys = api_keys.HOLDING if holding else api_keys.CHECKPOINTS
        with self._armed(cluster_id, keys) as sender:
            yield MarkerClient(sender)

    @contextmanager
    def records(self, cluster_id: str) -> Iterator[Sender]:
        """A sender of records and transactions, closed at the end.

        Raises:
            WrongCluster: the addresses lead to another cluster by now.
        """
        from breakglass.services.kafka.wire import api_keys

        with self._armed(cluster_id, api_keys.RECORDS) as sender:
            yield sender

    @contextmanager
    def _armed(self, cluster_id: str, keys: frozenset[int]) -> Iterator[Sender]:
        """A sender with power, once it is known to reach the cluster that was read."""
        from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
        from breakglass.services.kafka.read_client import ReadClient
        from breakglass.services.kafka.wire.deadline import Deadline

        settings = self.access.settings
        sender = _sender(self.access, keys)
        try:
            deadline = Deadline.after(settings.connect_timeout_ms / 1000)
            found = ReadClient(sender, settings.listener).describe_for_changes(deadline)
            require_same_cluster(cluster_id, found.cluster_id)
            yield sender
        finally:
            sender.close()


def _sender(access: ReadAccess, power: frozenset[int], client_id: str | None = None) -> Sender:
    """A sender that lets out reads, KIP-1275's read where it may be used, and *power*."""
    from breakglass.services.kafka.wire import api_keys
    from breakglass.services.kafka.wire.native_rpc import native_key
    from breakglass.services.kafka.wire.sender import Sender

    key = native_key(access.native_rpc)
    native = frozenset() if key is None else frozenset({key})
    settings = access.settings
    return Sender(
        settings.bootstrap_servers,
        _security(settings),
        api_keys.READ | native | power,
        client_id=settings.client_id if client_id is None else client_id,
        broker_addresses=settings.broker_addresses,
        connect_seconds=settings.connect_timeout_ms / 1000,
        known=access.known,
    )


def _security(settings: ConnectionSettings) -> Security:
    if settings.tls is None and settings.sasl is None:
        return Plaintext()
    from breakglass.services.connection.security import ClientSecurity

    return ClientSecurity(settings)
