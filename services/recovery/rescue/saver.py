"""Copies from one broker, topic by topic, into a backup of its own; the manifest comes last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    EvidenceChanged,
    StorageError,
    Unreachable,
)
from breakglass.services.kafka.replicas.limits import RateLimit
from breakglass.services.kafka.replicas.replica_records import CHUNK_BYTES, ReplicaRecords
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.record_batches import BatchHeader, RecordBatch, decode_batch
from breakglass.services.recovery.rescue.results import (
    FreeBytes,
    Saved,
    free_bytes,
    require_reserve,
)
from breakglass.services.recovery.rescue.spans import Share, Span
from breakglass.services.topic_backup.folder import LocalFolder
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
