"""Writes one segment: records first, and index entries once their records are durable."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from breakglass.services.topic_backup.folder import AppendFolder
from breakglass.services.topic_backup.layout import records_name, segment_index_name, segment_prefix
from breakglass.services.topic_backup.record import Record, encode
from breakglass.services.topic_backup.segment_index import ENTRY, IndexedRecord, encode_entry
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC
from breakglass.services.topic_backup.summary import Gap, SegmentSummary, SegmentTally

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

    @classmethod
    def create(cls, folder: AppendFolder, partition: int, start_offset: int) -> SegmentWriter:
        """A new, empty segment."""
        return cls(folder, segment_prefix(partition, start_offset), start_offset)

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
        """Write buffered records to the file if there are enough of them."""
        if len(self._waiting_records) >= BUFFER_BYTES:
            self.flush()

    def skip(self, gap: Gap) -> None:
        """Record that the offsets of *gap* are missing."""
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
        """Sync, then close the files."""
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
