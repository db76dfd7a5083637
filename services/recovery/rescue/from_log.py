"""Saves whole partitions from a dead broker's log folder in the Kafka Backup format.

Stretches that cannot be read are skipped and named with their offsets. The folder is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.divergence.log_source import LogSource, open_log
from breakglass.services.divergence.source import Reading
from breakglass.services.errors import BreakglassError, Refused, StorageError
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.rescue.broker_folder import BrokerFolder, ReplicaFolder
from breakglass.services.recovery.rescue.results import (
    MARGIN,
    RESERVE_BYTES,
    FreeBytes,
    free_bytes,
    require_reserve,
)
from breakglass.services.recovery.rescue.saver import clipped
from breakglass.services.recovery.rescue.spans import Span
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.partition_writer import PartitionWriter
from breakglass.services.topic_backup.summary import GapReason
from breakglass.services.topic_backup.topic_writer import TopicWriter

BATCHES_A_LOOK = 256
"""Number of batches between two checks of the free space."""


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """The result of a replica's log."""

    partition: TopicPartition
    log: Path
    start: int = 0
    end: int = 0
    """The offsets ``[start, end)`` that were to be saved."""
    records: int = 0
    """Data records written; markers stand in the batch log beside them."""
    bytes: int = 0
    path: Path | None = None
    """Address for `breakglass backup cat`; None where nothing was saved."""
    damage: tuple[UnreadableRange, ...] = ()
    """Stretches that are missing, sorted by offset."""
    reason: str = ""
    """Any other reason why the copy is not whole; empty if there is none."""

    @property
    def whole(self) -> bool:
        """Whether everything that was to be saved is saved."""
        return not self.reason and not self.damage


@dataclass(frozen=True, slots=True)
class LogRescue:
    """Copies the replicas of a broker's folder."""

    source: BrokerFolder
    root: Path
    """The backup's folder: this broker's alone."""
    stop: Callable[[], bool] = lambda: False
    free: FreeBytes = free_bytes
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The offset from which each log is saved; other logs are saved from their beginning."""

    def run(self, replicas: Sequence[ReplicaFolder]) -> Iterator[tuple[CopiedLog, ...]]:
        """Save *replicas*; yields the results of each topic once it is committed.

        Raises:
            StorageError: the folder cannot be made, or has no room for all of them.
        """
        size = sum(replica.size for replica in replicas)
        needed = int(size * MARGIN) + RESERVE_BYTES
        left = self.free(self.root)
        if needed > left:
            raise StorageError(
                f"{size:,} bytes of logs need about {needed:,} in {self.root} and {left:,} are "
                "free: free space there, name another folder by --store, or fewer topics by "
                "--topics"
            )
        LocalFolder.create(self.root)
        for folder in (self.root, self.root.parent):
            with storage_errors(str(folder)):
                folder.chmod(0o700)
        ordered = sorted(replicas, key=lambda replica: replica.partition)
        for topic, group in groupby(ordered, key=lambda replica: replica.partition.topic):
            replicas_of_topic = list(group)
            try:
                yield tuple(self._topic(topic, replicas_of_topic))
            except BreakglassError as error:
                yield tuple(
                    CopiedLog(replica.partition, replica.path, reason=str(error))
                    for replica in replicas_of_topic
                )

    def _topic(self, topic: str, replicas: Sequence[ReplicaFolder]) -> list[CopiedLog]:
        origin = {"rescued from log": str(self.source.path)}
        if self.source.broker is not None:
            origin["rescued from broker"] = str(self.source.broker)
        ids = {replica.topic_id for replica in replicas if replica.topic_id is not None}
        if len(ids) > 1:
            raise StorageError(
                f"{topic} has folders of {len(ids)} different topics of that name: name one "
                "replica's folder by --source"
            )
        identity = TopicIdentity(
            topic, self.source.cluster_id, next(iter(ids), None), origin=origin
        )
        with TopicWriter(self.root, identity) as writer:
            copied = [self._partition(writer, replica) for replica in replicas]
            if any(log.path is not None for log in copied):
                writer.commit()
            return copied

    def _partition(self, writer: TopicWriter, replica: ReplicaFolder) -> CopiedLog:
        number = replica.partition.partition
        try:
            log = open_log(str(replica.partition), replica.path)
        except BreakglassError as error:
            return CopiedLog(replica.partition, replica.path, reason=str(error))
        start = max(log.extent.start, self.starts.get(replica.partition, 0))
        if start >= log.extent.end > log.extent.start and not log.damaged_end():
            return CopiedLog(replica.partition, replica.path, start, start)
        copy = _Copy(writer.partition(number), replica, log, start, self._go_on)
        reason = ""
        try:
            copy.run()
        except BreakglassError as error:
            reason = str(error)
        summary = writer.finish(number)
        return CopiedLog(
            replica.partition,
            replica.path,
            start,
            log.extent.end,
            copy.records,
            sum(segment.records_bytes for segment in summary.segments),
            self.root / replica.partition.topic / str(number),
            tuple(copy.damage),
            reason or log.damaged_end(),
        )

    def _go_on(self) -> None:
        if self.stop():
            raise Refused("stopped on request before it was saved")
        require_reserve(self.root, self.free)


@dataclass(slots=True)
class _Copy:
    """A log while it is copied."""

    writer: PartitionWriter
    replica: ReplicaFolder
    log: LogSource
    start: int
    go_on: Callable[[], None]
    records: int = 0
    damage: list[UnreadableRange] = field(default_factory=list)
    _reached: int = 0

    def run(self) -> None:
        """Copy the log; raises Refused when the rescue was stopped, StorageError on a full disk."""
        self._reached = self.start
        self.writer.skip_to(self._reached, GapReason.NOT_TAKEN)
        for number, item in enumerate(self.log.whole_batches(self.start, Reading())):
            if number % BATCHES_A_LOOK == 0:
                self.go_on()
            if isinstance(item, UnreadableRange):
                self._miss(item)
            else:
                if item.header.base_offset > self._reached:
                    self._hole(item.header.base_offset)
                kept = clipped(item, Span(self.start, self.log.extent.end))
                self.records += self.writer.append_batch(kept)
                self._reached = max(self._reached, item.header.next_offset)
        if self._reached < self.log.extent.end:
            self._hole(self.log.extent.end)

    def _hole(self, end: int) -> None:
        """Handle offsets up to *end* without a batch: compaction, or a missing segment."""
        damage = self.replica.hole(self._reached, end)
        if damage is None:
            self.writer.skip_to(end, GapReason.COMPACTION)
            self._reached = end
        else:
            self._miss(damage)

    def _miss(self, damage: UnreadableRange) -> None:
        self.damage.append(damage)
        self.writer.skip_to(damage.end, GapReason.LOST)
        self._reached = max(self._reached, damage.end)


def log_end(replica: ReplicaFolder) -> int:
    """Where the log of *replica* ends, as far as it can be read. Raises as `open_log`."""
    return open_log(str(replica.partition), replica.path).extent.end
