"""Copies from one broker, topic by topic, into a backup of its own; the manifest comes last.

Saves whole partitions from a dead broker's log folder in the Kafka Backup format.
Stretches that cannot be read are skipped and named with their offsets. The folder is only read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from breakglass.services import patience
from breakglass.services.divergence.log_source import LogSource, open_log
from breakglass.services.divergence.source import Reading, UnreadableRange
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    EvidenceChanged,
    Refused,
    StorageError,
    Unreachable,
)
from breakglass.services.kafka.replicas.limits import RateLimit
from breakglass.services.kafka.replicas.replica_records import CHUNK_BYTES, ReplicaRecords
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.record_batches import BatchHeader, RecordBatch, decode_batch
from breakglass.services.recovery.rescue.broker_folder import BrokerFolder, ReplicaFolder
from breakglass.services.recovery.rescue.spans import (
    MARGIN,
    RESERVE_BYTES,
    FreeBytes,
    Saved,
    Share,
    Span,
    free_bytes,
    require_reserve,
)
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import (
    PartitionFiles,
    batch_log_name,
    listing,
    partition_index_name,
    records_name,
    segment_index_name,
)
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.partition_writer import PartitionWriter
from breakglass.services.topic_backup.summary import GapReason
from breakglass.services.topic_backup.topic_writer import TopicWriter

SMALLEST_CHUNK_BYTES = 16 * 1024
PARTITIONS_AT_ONCE = 4
"""Copies that run in parallel for a broker: small tails wait for the disk, not the broker."""


@dataclass(frozen=True, slots=True)
class ShareResult:
    """The result of a share."""

    partition: TopicPartition
    saved: Saved | None
    """The saved part; there may be a reason too, why the rest is missing."""
    reason: str = ""


@dataclass(slots=True)
class Saver:
    """Saves the shares of a broker."""

    sender: Sender
    broker: int
    root: Path
    """The backup's folder: this broker's alone."""
    cluster_id: str
    limit: RateLimit
    pause: Callable[[float], None]
    """Waits that many seconds; raises once the rescue was cancelled."""
    free: FreeBytes = free_bytes
    count: Callable[[int], None] = lambda _: None
    """Called with the number of records that were added, by several threads."""
    _gone: str = field(default="", init=False)
    """Why the broker was given up; its remaining shares then fail at once."""

    def run(self, shares: Iterable[Share]) -> Iterator[ShareResult]:
        """Save *shares*, all of this broker; one attempt each, once its topic is committed."""
        ordered = sorted(shares, key=lambda share: share.partition)
        for topic, group in groupby(ordered, key=lambda share: share.partition.topic):
            of_topic = list(group)
            try:
                yield from self._topic(topic, of_topic)
            except BreakglassError as error:
                yield from (ShareResult(share.partition, None, str(error)) for share in of_topic)

    def _topic(self, topic: str, shares: Sequence[Share]) -> list[ShareResult]:
        """Save and commit a topic.

        Raises:
            BreakglassError: no share of the topic counts as saved.
        """
        state = shares[0].evidence.state
        origin = {"rescued from broker": str(self.broker)}
        identity = TopicIdentity(topic, self.cluster_id, state.topic_id, origin=origin)
        with TopicWriter(self.root, identity) as writer:
            with ThreadPoolExecutor(PARTITIONS_AT_ONCE, f"rescue-b{self.broker}") as pool:
                attempts = list(pool.map(lambda share: self._attempt(writer, share), shares))
            if any(attempt.saved for attempt in attempts):
                writer.commit()
            return attempts

    def _attempt(self, writer: TopicWriter, share: Share) -> ShareResult:
        """Save a share. Records read before a failure are kept where the disk allows."""
        if self._gone:
            return ShareResult(share.partition, None, self._gone)
        copied, reason = 0, ""
        try:
            partition = writer.partition(share.partition.partition)
            for span in share.spans:
                for added in self._copy(partition, share, span):
                    copied += added
                    self.count(added)
        except BreakglassError as error:
            reason = str(error)
            if isinstance(error, Unreachable):
                self._gone = reason
        return self._finish(writer, share, copied, reason)

    def _finish(self, writer: TopicWriter, share: Share, copied: int, reason: str) -> ShareResult:
        number = share.partition.partition
        try:
            summary = writer.finish(number)
        except StorageError as error:
            remove_partition(LocalFolder(self.root / share.partition.topic), number)
            return ShareResult(share.partition, None, reason or str(error))
        size = sum(segment.records_bytes for segment in summary.segments)
        path = self.root / share.partition.topic / str(number)
        saved = Saved(self.broker, share.spans, copied, size, path)
        return ShareResult(share.partition, saved if copied or not reason else None, reason)

    def _copy(self, partition: PartitionWriter, share: Share, span: Span) -> Iterator[int]:
        """Copy *span*; yields the number of records that each batch added."""
        partition.skip_to(span.start, GapReason.NOT_TAKEN)
        log = ReplicaRecords(
            self.sender,
            self.broker,
            share.partition,
            chunk_bytes=chunk_bytes(self.limit),
            request_seconds=patience.CHUNK,
            go_on=lambda: self.pause(0),
        )
        reached = span.start
        for chunk in log.chunks(span.start, span.end):
            require_reserve(self.root, self.free)
            for header in chunk.headers:
                require_same_log(share, header, log.where)
                require_no_hole(share, reached, header.base_offset, log.where)
                batch = decode_batch(chunk.data, header, log.where)
                yield partition.append_batch(clipped(batch, span))
                reached = header.next_offset
            self.pause(self.limit.spend(len(chunk.data)))
        require_no_hole(share, reached, span.end, log.where)
        compacted = share.evidence.settings.compacted is True
        partition.skip_to(span.end, GapReason.COMPACTION if compacted else GapReason.UNKNOWN)


def chunk_bytes(limit: RateLimit) -> int:
    """Bytes to ask for at once, so that a slow copy does not come in bursts."""
    rate = limit.bytes_per_second
    return CHUNK_BYTES if rate is None else max(SMALLEST_CHUNK_BYTES, min(CHUNK_BYTES, rate))


def clipped(batch: RecordBatch, span: Span) -> RecordBatch:
    """*batch* without records outside *span*; brokers send whole batches.

    Its header keeps count and CRC of the whole batch.
    """
    header = batch.header
    if span.start <= header.base_offset and header.next_offset <= span.end:
        return batch
    records = tuple(record for record in batch.records if span.start <= record.offset < span.end)
    last_offset = min(header.last_offset, span.end - 1)
    return replace(batch, header=replace(header, last_offset=last_offset), records=records)


def require_same_log(share: Share, header: BatchHeader, where: str) -> None:
    """Raise EvidenceChanged when a batch is of a later epoch than the log had at its offset.

    Then another replica has led the partition since, and what is to be saved is already gone.
    """
    epochs = share.replica.epochs
    if not isinstance(epochs, EpochHistory):
        return
    expected = epochs.epoch_at(header.last_offset)
    if expected is not None and header.leader_epoch > expected:
        raise EvidenceChanged(
            f"the log of {where} was overwritten from offset {header.base_offset} under leader "
            f"epoch {header.leader_epoch}: read it again"
        )


def require_no_hole(share: Share, start: int, end: int, where: str) -> None:
    """Raise ClusterError where no batch holds offsets of a log that nothing has compacted.

    What is not there cannot be saved, and must not be reported as saved.
    """
    if start < end and share.evidence.settings.compacted is False:
        raise ClusterError(
            f"{where} reports offsets {start} to {end - 1} but gives no records for them: check "
            "its log segments with kafka-dump-log.sh"
        )


def remove_partition(folder: LocalFolder, number: int) -> None:
    """Give back the space of a partition that no commit names. A file that stays does no harm."""
    with contextlib.suppress(StorageError):
        names = folder.names()
        listed = listing(names).get(number, PartitionFiles())
        files = [partition_index_name(number), batch_log_name(number)]
        for segment in listed.segments:
            files += [records_name(segment.prefix), segment_index_name(segment.prefix)]
        for name in set(files).intersection(names):
            folder.remove(name)


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
