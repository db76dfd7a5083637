"""Opens sources by their addresses, and pairs them for a comparison.

Two sources are compared by offset, by position, or by a restore's map of old to new offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services import patience
from breakglass.services.divergence.address import SourceAddress, SourceKind
from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.backup_opening import open_backup, open_checkpoint, open_rescue
from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.metastore_source import open_metastore
from breakglass.services.divergence.replica_epochs import proven_by_epochs
from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.source import Extent, Reading, Source
from breakglass.services.divergence.views import CommittedView, RestoredView, by_position
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


@dataclass(frozen=True, slots=True)
class Opener:
    """What sources are opened with."""

    client: Callable[[], ReadClient]
    """Gives a client that knows the cluster's brokers; called only if a source needs it."""
    key: Key | None = None
    """The key of encrypted backups."""
    state: Path | None = None
    """Folder of a restore's map of old to new offsets; None: offsets are compared as they are."""
    by_epochs: bool = False
    """Do not read replicas up to where their leader epochs diverge: they are the same there."""

    def open(self, address: SourceAddress) -> Source:
        """The source at *address*, in the extent it has now.

        Raises:
            UsageError: the source does not exist.
            StorageError, MalformedInput, UnsupportedSchema: the source cannot be read.
            Unreachable, ClusterError: the broker does not answer where the log ends.
        """
        if address.kind is SourceKind.METASTORE:
            return open_metastore(str(address), Path(address.place))
        if address.kind is SourceKind.CHECKPOINT:
            return open_checkpoint(address)
        if address.kind.stored:
            store = open_store(address.place, self.key)
            if not store.names(address.folder):
                raise UsageError(
                    f"{store.where(address.folder)} holds no backup: check the address."
                )
            opened = open_rescue if address.kind is SourceKind.RESCUE else open_backup
            return opened(str(address), store.folder(address.folder), address.partition)
        if address.kind is SourceKind.LOG:
            path = Path(address.place) / f"{address.folder}-{address.partition}"
            return open_log(str(address), path)
        return self._live(address)

    def proven_same(self, left: Source, right: Source) -> Extent | None:
        """The offsets at which two replicas are the same by their epochs; None if not proven."""
        if not (isinstance(left, ReplicaSource) and isinstance(right, ReplicaSource)):
            return None
        if left.committed or right.committed or not (left.gapless and right.gapless):
            return None
        return proven_by_epochs(self.client(), left, right, Deadline.after(patience.COMMAND))

    def _live(self, address: SourceAddress) -> Source:
        client, deadline = self.client(), Deadline.after(patience.COMMAND)
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
    for state in client.partitions((), deadline, (partition,)):
        if state.partition == partition:
            return state
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


def refusal(left: SourceAddress, right: SourceAddress) -> str:
    """Why the two cannot be compared; empty where they can."""
    one, other = left.topic_partition, right.topic_partition
    if SourceKind.METASTORE in (left.kind, right.kind):
        others = [each for each in (left, right) if each.kind is not SourceKind.METASTORE]
        if all(each.partition == 0 for each in others):
            return ""
        return f"{left} and {right} have no positions in common: a command topic is a partition 0"
    if one == other:
        return ""
    return (
        f"{left} and {right} have no offsets in common, for they are of {one} and {other}; a topic "
        "restored under another name is compared with its backup by `breakglass diff --progress`, "
        "all of it by `breakglass backup verify --against`"
    )


def compare(opener: Opener, left: SourceAddress, right: SourceAddress) -> Comparison:
    """The comparison of two sources; reads none of their records yet.

    If one side has only committed records, only committed records of the other are compared.

    Raises:
        UsageError: the sources cannot be compared, or one does not exist.
        BreakglassError: as `Opener.open`.
    """
    if opener.state is not None:
        return compare_restored(opener, left, right)
    why = refusal(left, right)
    if why:
        raise UsageError(f"{why}.")
    one, other = opener.open(left), opener.open(right)
    if SourceKind.METASTORE in (left.kind, right.kind):
        return Comparison(_by_position(left, one), _by_position(right, other))
    if left.kind.committed != right.kind.committed:
        one = one if left.kind.committed else CommittedView(one)
        other = other if right.kind.committed else CommittedView(other)
    elif SourceKind.RESCUE in (left.kind, right.kind) and left.kind is not right.kind:
        # A rescue saves that there was a marker, but not the content of the control record.
        one, other = CommittedView(one, uncommitted=True), CommittedView(other, uncommitted=True)
    proven = opener.proven_same(one, other) if opener.by_epochs else None
    return Comparison(one, other, proven)


def compare_restored(opener: Opener, left: SourceAddress, right: SourceAddress) -> Comparison:
    """The comparison of a backup with the topic restored from it, by the backup's offsets.

    Raises:
        UsageError: they are not a backup and a topic, or the restore's map is not in *state*.
        BreakglassError: as `Opener.open`.
    """
    kinds = {left.kind, right.kind}
    if SourceKind.BACKUP not in kinds or not kinds & {
        SourceKind.TOPIC,
        SourceKind.REPLICA,
        SourceKind.LOG,
    }:
        raise UsageError(
            "--progress is for a backup and the topic, replica or log restored from it."
        )
    one, other = opener.open(left), opener.open(right)
    if left.kind is SourceKind.BACKUP:
        return Comparison(one, _restored(opener, right, other, one))
    return Comparison(_restored(opener, left, one, other), other)


def _restored(opener: Opener, address: SourceAddress, topic: Source, backup: Source) -> Source:
    from breakglass.services.pipeline.restore.offset_map import read_log

    assert opener.state is not None
    noted = opener.state / address.folder / f"partition-{address.partition}.jsonl"
    stretches = read_log(noted).runs
    if not stretches:
        raise UsageError(
            f"{noted} tells of no restored records: name the --progress of that restore."
        )
    view = topic if address.kind.committed else CommittedView(topic)
    return RestoredView(view, backup, stretches)


def _by_position(address: SourceAddress, source: Source) -> Source:
    if address.kind is SourceKind.METASTORE:
        return source
    committed = source if address.kind.committed else CommittedView(source)
    return by_position(committed, Reading())
