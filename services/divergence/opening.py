"""Opens sources by their addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.divergence.address import SourceAddress, SourceKind
from breakglass.services.divergence.backup_opening import open_backup
from breakglass.services.divergence.checkpoint_source import open_checkpoint
from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.metastore_source import open_metastore
from breakglass.services.divergence.replica_epochs import proven_by_epochs
from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.rescue_source import open_rescue
from breakglass.services.divergence.source import Extent, Source
from breakglass.services.errors import ClusterError, UsageError
from breakglass.services.kafka.replicas.list_offsets import (
    DEBUGGING_REPLICA,
    EARLIEST,
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.topic_backup.store.store import open_store

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.topic_backup.store.key import Key

ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Opener:
    """What sources are opened with."""

    client: Callable[[], ReadClient]
    """A client of the cluster, asked for only where a source needs it; it knows the brokers."""
    key: Key | None = None
    """Of backups that are encrypted."""
    state: Path | None = None
    """Where a restore keeps which offsets its records had; None: offsets are compared as they are.
    """
    by_epochs: bool = False
    """Replicas are the same up to where their leader epochs part: that is not read."""

    def open(self, address: SourceAddress) -> Source:
        """The source at *address*, in the extent it has now.

        Raises:
            UsageError: there is no such thing.
            StorageError, MalformedInput, UnsupportedSchema: it cannot be read.
            Unreachable, ClusterError: its broker does not tell where it ends.
        """
        if address.kind is SourceKind.METASTORE:
            return open_metastore(str(address), Path(address.place))
        if address.kind is SourceKind.CHECKPOINT:
            return open_checkpoint(address)
        if address.kind.stored:
            return self._stored(address)
        if address.kind is SourceKind.LOG:
            path = Path(address.place) / f"{address.folder}-{address.partition}"
            return open_log(str(address), path)
        return self._live(address)

    def proven_same(self, left: Source, right: Source) -> Extent | None:
        """What two replicas hold alike by their epochs; None where that proves nothing."""
        if not (isinstance(left, ReplicaSource) and isinstance(right, ReplicaSource)):
            return None
        if left.committed or right.committed or not (left.gapless and right.gapless):
            return None
        return proven_by_epochs(self.client(), left, right, Deadline.after(ASK_SECONDS))

    def _stored(self, address: SourceAddress) -> Source:
        store = open_store(address.place, self.key)
        if not store.names(address.folder):
            raise UsageError(f"{store.where(address.folder)} holds no backup: check the address.")
        opened = open_rescue if address.kind is SourceKind.RESCUE else open_backup
        return opened(str(address), store.folder(address.folder), address.partition)

    def _live(self, address: SourceAddress) -> Source:
        client, deadline = self.client(), Deadline.after(ASK_SECONDS)
        partition = address.topic_partition
        state = _state(client, partition, deadline)
        leads = address.kind is SourceKind.TOPIC
        broker = _leader(state) if leads else int(address.place)
        if broker not in state.assignment and not leads:
            held = ", ".join(map(str, state.assignment))
            raise UsageError(f"{address}: b{broker} has no replica of it, only {held} have.")
        extent = _extent(client, broker, partition, deadline, committed=leads)
        compacted = client.settings([partition.topic], deadline)[partition.topic].compacted
        return ReplicaSource(
            client.sender,
            broker,
            partition,
            extent,
            gapless=compacted is False,
            committed=leads,
            title=str(address),
        )


def _state(client: ReadClient, partition: TopicPartition, deadline: Deadline) -> PartitionState:
    for one in client.partitions((), deadline, (partition,)):
        if one.partition == partition:
            return one
    raise UsageError(f"the cluster has no partition {partition}: check topic and number.")


def _leader(state: PartitionState) -> int:
    if state.leader is None:
        raise ClusterError(
            f"{state.partition} is offline, so nobody reads it as a topic: compare its replicas, "
            f"as replica:{state.assignment[0]}/{state.partition.topic}/{state.partition.partition}"
        )
    return state.leader


def _extent(
    client: ReadClient,
    broker: int,
    partition: TopicPartition,
    deadline: Deadline,
    *,
    committed: bool,
) -> Extent:
    replica = LEADER_ONLY if committed else DEBUGGING_REPLICA
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED

    def ask(timestamp: int, isolation: int) -> int:
        told = list_offsets(
            client.sender,
            broker,
            [partition],
            timestamp,
            deadline,
            replica_id=replica,
            isolation_level=isolation,
        )[partition]
        if isinstance(told, OffsetError):
            raise ClusterError(f"{partition} on b{broker}: {told.reason}")
        return told.offset

    start = ask(EARLIEST, READ_UNCOMMITTED)
    return Extent(start, max(start, ask(LATEST, isolation)))
