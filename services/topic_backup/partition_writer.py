"""Writes one partition of a backup: rolls segments, skips repeated offsets, records missing ones.

Kafka Backup's rule for rolling: before a record is written, a segment larger than the limit is
closed, and a new segment is named by that record's offset. The first segment is always named 0
and exists even if the partition is empty.

Writes one segment: records first, and index entries once their records are durable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from breakglass.services.errors import ConflictingRecord
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import Record, RecordBatch
from breakglass.services.topic_backup.batch_log import BatchLog, BatchState
from breakglass.services.topic_backup.folder import AppendFolder, write_at
from breakglass.services.topic_backup.layout import (
    PartitionFiles,
    batch_log_name,
    listing,
    partition_index_name,
    records_name,
    segment_index_name,
    segment_prefix,
)
from breakglass.services.topic_backup.reader import read_extents
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.resume import Cut, oldest_missing, resume
from breakglass.services.topic_backup.segment_bytes import SegmentExtent
from breakglass.services.topic_backup.segment_index import (
    ENTRY,
    IndexedRecord,
    SegmentEntry,
    encode_entry,
    encode_segment,
)
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC
from breakglass.services.topic_backup.summary import (
    Gap,
    GapReason,
    PartitionSummary,
    SegmentSummary,
    SegmentTally,
)

if TYPE_CHECKING:
    from hashlib import _Hash


BUFFER_BYTES = 256 * 1024
"""Records are buffered to writes of about this size; thousands of writers may be open."""
MAX_WAITING_INDEX_BYTES = 4 * 1024 * 1024
"""Index entries wait in memory for their records' fsync; this size forces one."""


class SegmentWriter:
    """Appends records to one segment.

    An index entry is never on disk before its record, not even after a power cut: our readers and
    Kafka Backup use the index to find out which records are complete.
    """

    def __init__(
        self,
        folder: AppendFolder,
        prefix: str,
        start_offset: int,
        resumed: SegmentSummary | None = None,
        digest: _Hash | None = None,
    ) -> None:
        """Create the segment, or continue *resumed*, whose bytes are hashed in *digest*."""
        self.prefix = prefix
        self.start_offset = start_offset
        self._tally = SegmentTally(resumed)
        self._digest = digest or hashlib.sha256()
        self._size = resumed.records_bytes if resumed else 0
        self._waiting_records = bytearray()
        self._waiting_index = bytearray()
        at = FIRST_POSITION + resumed.count * ENTRY.size if resumed else 0
        self._records = folder.append(records_name(prefix), self._size)
        self._index = folder.append(segment_index_name(prefix), at)
        if not resumed:
            self._gather(MAGIC)
            self._waiting_index += MAGIC

    @property
    def size(self) -> int:
        """Size of the records file, with the magic byte and buffered records."""
        return self._size

    @property
    def last_offset(self) -> int | None:
        return self._tally.last_offset

    def append(self, record: Record, leader_epoch: int | None = None) -> None:
        """Buffer *record*, whose offset must be above all others; call `relieve` now and then."""
        content = encode(record)
        entry = IndexedRecord(record.offset, self._size, len(content))
        self._gather(content)
        self._waiting_index += encode_entry(entry)
        self._tally.add(record, leader_epoch)

    @property
    def crowded(self) -> bool:
        """Whether enough index entries wait in memory that the caller should `sync`."""
        return len(self._waiting_index) >= MAX_WAITING_INDEX_BYTES

    def relieve(self) -> None:
        if len(self._waiting_records) >= BUFFER_BYTES:
            self.flush()

    def skip(self, gap: Gap) -> None:
        self._tally.skip(gap)

    def flush(self) -> None:
        """Write buffered records to the file; not yet durable."""
        if self._waiting_records:
            self._records.write(bytes(self._waiting_records))
            self._waiting_records.clear()

    def sync(self) -> None:
        """Make records durable, then their index entries."""
        if not self._waiting_index:
            return
        self.flush()
        self._records.sync()
        self._index.write(bytes(self._waiting_index))
        self._waiting_index.clear()
        self._index.sync()

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files without writing buffered records."""
        self._records.close()
        self._index.close()

    def summary(self) -> SegmentSummary:
        """The current state with buffered records; call `sync` before committing it."""
        return self._tally.summary(
            self.prefix, self.start_offset, self._size, self._digest.hexdigest()
        )

    def _gather(self, content: bytes) -> None:
        self._waiting_records += content
        self._digest.update(content)
        self._size += len(content)


MAX_SEGMENT_BYTES = 1024 * 1024 * 1024
"""The default of BackupSinkConfig.java."""


class PartitionWriter:
    """Appends to one partition. Not thread-safe; made by `TopicWriter.partition`."""

    def __init__(
        self,
        folder: AppendFolder,
        partition: TopicPartition,
        committed: PartitionSummary | None,
        *,
        max_segment_bytes: int = MAX_SEGMENT_BYTES,
        hole: GapReason = GapReason.UNKNOWN,
        files: PartitionFiles | None = None,
    ) -> None:
        """Begin the partition, or continue where its last writer stopped or was killed.

        *files* are the partition's files; None lists the folder. *hole* is the reason for missing
        offsets that no call of `skip_to` explains.

        Raises:
            DamagedBackup: as `resume`.
            StorageError: a file cannot be written.
        """
        files = files or listing(folder.names()).get(partition.partition, PartitionFiles())
        found = resume(folder, partition.partition, committed, files.segments)
        self.partition = partition
        self.cuts: tuple[Cut, ...] = found.cuts
        """The bytes that a killed writer left at the ends of files."""
        self._folder = folder
        self._hole = hole
        self._max_segment_bytes = max_segment_bytes
        self._next_offset = _later(found.next_offset, committed.next_offset if committed else None)
        self._index_size = folder.size(partition_index_name(partition.partition)) or 0
        self._index_waiting = bytearray()
        gone = oldest_missing(committed, found.segments)
        self._closed = [*gone, *found.segments[:-1]]
        self._segment = self._begin(found.segments[-1] if found.segments else None, found.digest)
        done = committed.batch_log if committed else None
        there = self._folder.size(batch_log_name(self.partition.partition))
        self._log = self._open_log(committed) if done or there else None
        self.unproved = found.unproved
        """What was taken from files that nothing vouches for."""
        self._replay: Iterator[Record] = iter(())
        self._replay_offset = -1
        self._replay_end = -1

    @property
    def next_offset(self) -> int | None:
        """The next offset to read; None if nothing was written or accounted for yet."""
        return self._next_offset

    def append(self, record: Record, leader_epoch: int | None = None) -> bool:
        """Write *record*; return False if the backup already contains exactly that record.

        Raises:
            ConflictingRecord: the backup contains another record at that offset.
            StorageError: the record could not be written.
        """
        if self._next_offset is not None and record.offset < self._next_offset:
            self._compare(record)
            return False
        if self._segment.size > self._max_segment_bytes:
            self._rotate(record.offset)
        self._account(record.offset, self._hole)
        self._segment.append(record, leader_epoch)
        # The offset moves before the write, so that a record whose write failed is not taken twice.
        self._next_offset = record.offset + 1
        if self._segment.crowded:
            self.sync()
        else:
            self._segment.relieve()
        return True

    def append_batch(self, batch: RecordBatch) -> int:
        """Write the data records of *batch*, and its state to the batch log.

        Control records are not written: the log contains them, and their offsets become a gap.
        Return how many records were new.

        Raises ConflictingRecord, StorageError: as `append`.
        """
        if self._log is None:
            self._log = self._open_log(None)
        self._log.append(BatchState.of(batch))
        if batch.header.control:
            self.skip_to(batch.header.next_offset, GapReason.CONTROL)
            return 0
        epoch = batch.header.leader_epoch
        written = sum(self.append(record, epoch) for record in batch.records)
        self.skip_to(batch.header.next_offset, self._hole)
        return written

    def skip_to(self, offset: int, reason: GapReason) -> None:
        """Account for all offsets below *offset*: those not in the backup are missing by *reason*.

        The first call, or the first record, sets where the backup starts. An offset that is already
        accounted for changes nothing.
        """
        self._account(offset, reason)
        self._next_offset = _later(self._next_offset, offset)

    def sync(self) -> None:
        """Make the batch log, records, segment index and partition index durable."""
        if self._log is not None:
            self._log.sync()
        self._segment.sync()
        if not self._index_waiting:
            return
        content = bytes(self._index_waiting)
        name = partition_index_name(self.partition.partition)
        write_at(self._folder, name, self._index_size, [content])
        self._index_size += len(content)
        self._index_waiting.clear()

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files without a sync; the next writer cuts off what was not synced."""
        self._segment.abandon()
        if self._log is not None:
            self._log.close()

    def summary(self) -> PartitionSummary:
        """The current state of the partition; call `sync` before committing it."""
        return PartitionSummary(
            partition=self.partition.partition,
            next_offset=self._next_offset,
            segments=(*self._closed, self._segment.summary()),
            batch_log=self._log.summary() if self._log is not None else None,
            unproved=self.unproved,
        )

    def _begin(self, resumed: SegmentSummary | None, digest: _Hash | None) -> SegmentWriter:
        if resumed is not None:
            prefix, start_offset = resumed.prefix, resumed.start_offset
            return SegmentWriter(self._folder, prefix, start_offset, resumed, digest)
        # Kafka Backup always names the first segment 0, whatever its first offset.
        self._index_waiting += MAGIC
        return self._create(0)

    def _create(self, start_offset: int) -> SegmentWriter:
        prefix = segment_prefix(self.partition.partition, start_offset)
        segment = SegmentWriter(self._folder, prefix, start_offset)
        entry = SegmentEntry(segment.prefix, start_offset)
        self._index_waiting += encode_segment(entry)
        return segment

    def _account(self, offset: int, reason: GapReason) -> None:
        if self._next_offset is not None and offset > self._next_offset:
            self._segment.skip(Gap(self._next_offset, offset, reason))

    def _rotate(self, start_offset: int) -> None:
        if start_offset <= self._segment.start_offset:
            return
        self.sync()
        self._segment.close()
        following = self._create(start_offset)
        self._closed.append(self._segment.summary())
        self._segment = following

    def _open_log(self, committed: PartitionSummary | None) -> BatchLog:
        return BatchLog(
            self._folder,
            self.partition.partition,
            committed.batch_log if committed else None,
            self._next_offset,
        )

    def _compare(self, record: Record) -> None:
        stored = self._stored(record.offset)
        if stored == record:
            return
        holds = "other content" if stored else "no record"
        raise ConflictingRecord(
            f"{self.partition}: the backup holds {holds} at offset {record.offset}, so it is of "
            f"another log than this; back up to an empty folder instead of {self._folder.where()}."
        )

    def _stored(self, offset: int) -> Record | None:
        """The record at *offset*; one read serves consecutive repeated offsets."""
        if not 0 <= self._replay_offset < offset < self._replay_end:
            self.sync()
            written = (*self._closed, self._segment.summary())
            extents = [
                SegmentExtent(one.prefix, one.start_offset, one.records_bytes) for one in written
            ]
            self._replay = read_extents(self._folder, extents, offset)
            self._replay_end = self._next_offset or 0
        for record in self._replay:
            self._replay_offset = record.offset
            if record.offset >= offset:
                return record if record.offset == offset else None
        self._replay_offset = -1
        return None


def _later(one: int | None, other: int | None) -> int | None:
    return max((offset for offset in (one, other) if offset is not None), default=None)
