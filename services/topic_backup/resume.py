"""Prepares a partition for its next writer: cuts off what a killed writer left incomplete.

A record after the last commit stays if it is complete and has an index entry, which is written
only once the record is durable. Kafka Backup resumes in the same way, so records that it appended
stay. Nothing vouches for them: they stay unproved. Bytes that an index entry covers are never cut
off: they are damage, and raise an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.errors import BreakglassError, DamagedBackup
from breakglass.services.topic_backup import partition_index
from breakglass.services.topic_backup.folder import AppendFolder, storage_errors, write_at
from breakglass.services.topic_backup.layout import Segment, records_name, segment_index_name
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.reindex import write_partition_index, write_segment_index
from breakglass.services.topic_backup.segment_index import (
    ENTRY,
    IndexedRecord,
    SegmentIndex,
    open_index,
)
from breakglass.services.topic_backup.segment_reader import (
    CHUNK_BYTES,
    FIRST_POSITION,
    MAGIC,
    read_segment,
)
from breakglass.services.topic_backup.summary import (
    UNVOUCHED,
    Gap,
    GapReason,
    PartitionSummary,
    SegmentSummary,
    SegmentTally,
    Unproved,
)

if TYPE_CHECKING:
    from hashlib import _Hash


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes that were cut off the end of a file."""

    file: str
    position: int
    """How many bytes stayed."""
    size: int
    """How many bytes were cut off."""


def oldest_missing(
    committed: PartitionSummary | None, there: Sequence[SegmentSummary]
) -> tuple[SegmentSummary, ...]:
    """The committed segments before those *there*; the backup continues without them.

    They stay in the manifest, so that every reader reports them as missing.
    """
    first = min((summary.start_offset for summary in there), default=None)
    held = committed.segments if committed and first is not None else ()
    return tuple(summary for summary in held if first is not None and summary.start_offset < first)


@dataclass(frozen=True, slots=True)
class Resumed:
    """A partition that is ready for appending."""

    segments: tuple[SegmentSummary, ...]
    """Sorted by start offset; empty if the partition was never written."""
    digest: _Hash | None
    """The running hash of the last segment's bytes."""
    cuts: tuple[Cut, ...]
    unproved: tuple[Unproved, ...]
    """What the last commit could not prove, and the records that no commit has."""

    @property
    def next_offset(self) -> int | None:
        for segment in reversed(self.segments):
            if segment.last_offset is not None:
                return segment.last_offset + 1
        return None


def resume(
    folder: AppendFolder,
    partition: int,
    committed: PartitionSummary | None,
    segments: Sequence[Segment],
) -> Resumed:
    """Make the files of *partition* consistent, so that a writer can continue them.

    *segments* are the partition's segments in the folder.

    Raises:
        DamagedBackup: files are shorter than was committed, have other bytes, or have damage that
            a killed writer does not explain.
    """
    return _Resume(folder, partition, committed).run(segments)


class _Resume:
    def __init__(
        self, folder: AppendFolder, partition: int, committed: PartitionSummary | None
    ) -> None:
        self._folder = folder
        self._partition = partition
        self._committed = committed
        self._cuts: list[Cut] = []
        self._digest: _Hash | None = None
        self._accounted = committed.next_offset if committed else None

    def run(self, on_disk: Sequence[Segment]) -> Resumed:
        self._drop_lone_indexes(on_disk)
        # Before the oldest committed segment is what a prune that was killed has not removed yet.
        done = self._committed.segments if self._committed else ()
        oldest = min((segment.start_offset for segment in done), default=0)
        segments = [
            segment for segment in on_disk if segment.has_records and segment.start_offset >= oldest
        ]
        self._check_all_there(segments)
        last = segments[-1] if segments else None
        summaries = tuple(self._segment(segment, last=segment is last) for segment in segments)
        latest = -1
        for segment in summaries:
            if segment.first_offset is None or segment.last_offset is None:
                continue
            if segment.first_offset <= latest:
                where = self._folder.where(records_name(segment.prefix))
                reason = f"offset {segment.first_offset} follows offset {latest}"
                raise DamagedBackup(where, FIRST_POSITION, reason)
            latest = segment.last_offset
        if segments:
            wanted = tuple(
                partition_index.SegmentEntry(segment.prefix, segment.start_offset)
                for segment in segments
            )
            try:
                held: tuple[partition_index.SegmentEntry, ...] | None
                held = partition_index.read(self._folder, self._partition)
            except BreakglassError:
                held = None
            if held != wanted:
                write_partition_index(self._folder, self._partition, wanted)
        return Resumed(summaries, self._digest, tuple(self._cuts), self._unproved(summaries))

    def _unproved(self, summaries: Sequence[SegmentSummary]) -> tuple[Unproved, ...]:
        known = self._committed or PartitionSummary(self._partition, None, ())
        begins: int | None = None
        end = 0
        for segment in summaries:
            done = known.segment(segment.start_offset)
            last = done.last_offset if done is not None else None
            if segment.last_offset is not None and segment.last_offset != last:
                first = segment.first_offset if last is None else last + 1
                begins, end = (first if begins is None else begins), segment.last_offset + 1
        if begins is None:
            return known.unproved
        return Unproved(begins, end, UNVOUCHED).after(known.unproved)

    def _drop_lone_indexes(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            if not segment.has_records:
                self._folder.remove(segment_index_name(segment.prefix))

    def _check_all_there(self, segments: Sequence[Segment]) -> None:
        """Check that only the oldest committed segments are missing, before those present."""
        there = {segment.start_offset for segment in segments}
        oldest = min(there, default=0)
        for done in self._committed.segments if self._committed else ():
            gone = done.start_offset not in there and (done.count or not there)
            if gone and (done.start_offset >= oldest or not there):
                where = self._folder.where(records_name(done.prefix))
                raise DamagedBackup(where, 0, "it was committed and is not there")

    def _segment(self, segment: Segment, *, last: bool) -> SegmentSummary:
        done = self._committed.segment(segment.start_offset) if self._committed else None
        size = self._folder.size(records_name(segment.prefix)) or 0
        if done and size == done.records_bytes and not last:
            return done
        if size == 0 and not done:
            size = len(MAGIC)
            self._folder.replace(records_name(segment.prefix), [MAGIC])
        tail = _Tail(self._folder, segment, size, done, self._accounted)
        summary = tail.walk()
        self._accounted = tail.accounted
        self._cuts += tail.cut()
        if last:
            self._digest = tail.digest
        return summary


class _Tail:
    """One segment after its last commit, read record by record along with its index."""

    def __init__(
        self,
        folder: AppendFolder,
        segment: Segment,
        size: int,
        done: SegmentSummary | None,
        accounted: int | None,
    ) -> None:
        self._folder = folder
        self._segment = segment
        self._name = records_name(segment.prefix)
        self._size = size
        self._done = done
        self._tally = SegmentTally(done)
        self._end = done.records_bytes if done else FIRST_POSITION
        self.accounted = accounted
        """Lower offsets are backed up or known to be missing; None before the first."""
        self._index_fits = True
        self.digest = hashlib.sha256()

    def walk(self) -> SegmentSummary:
        where = self._folder.where(self._name)
        if self._size < self._end:
            reason = f"{self._end} bytes were committed, {self._size} are there"
            raise DamagedBackup(where, self._size, reason)
        with self._folder.open(self._name) as file, storage_errors(where):
            missing = self._end
            while missing:
                chunk = file.read(min(missing, CHUNK_BYTES))
                if not chunk:
                    raise DamagedBackup(
                        where, self._end - missing, "the file was cut while it was read"
                    )
                self.digest.update(chunk)
                missing -= len(chunk)
        if self._done and self.digest.hexdigest() != self._done.sha256:
            raise DamagedBackup(where, 0, "its committed bytes have changed (SHA-256 differs)")
        index = open_index(self._folder, self._segment.prefix)
        if index is None:
            self._index_fits = False
            self._walk(None)
        else:
            with index:
                self._walk(index)
        digest = self.digest.hexdigest()
        segment = self._segment
        return self._tally.summary(segment.prefix, segment.start_offset, self._end, digest)

    def cut(self) -> list[Cut]:
        cuts = self._truncate(self._name, self._end)
        index = segment_index_name(self._segment.prefix)
        if self._index_fits:
            return cuts + self._truncate(index, FIRST_POSITION + self._tally.count * ENTRY.size)
        write_segment_index(
            self._folder,
            self._segment.prefix,
            read_segment(self._folder, self._name, end=self._end),
        )
        return cuts

    def _walk(self, index: SegmentIndex | None) -> None:
        done = self._done
        if index is not None and done is not None and done.count:
            covered = len(index) >= done.count and index[done.count - 1].end == done.records_bytes
            self._index_fits = covered
        try:
            for placed in read_segment(self._folder, self._name, start=self._end):
                entry = IndexedRecord.of(placed)
                if self._index_fits and index is not None:
                    if self._tally.count >= len(index):
                        return
                    self._index_fits = index[self._tally.count] == entry
                offset = placed.record.offset
                if self.accounted is not None and offset > self.accounted:
                    self._tally.skip(Gap(self.accounted, offset, GapReason.UNKNOWN))
                self.accounted = max(self.accounted or 0, offset + 1)
                self._tally.add(placed.record)
                self.digest.update(encode(placed.record))
                self._end = placed.end
        except DamagedBackup as damage:
            # Accept the incomplete end that a killed writer leaves; raise any other damage.
            spoken_for = index is None or not self._index_fits or self._tally.count < len(index)
            if spoken_for and not damage.torn:
                raise damage

    def _truncate(self, name: str, to: int) -> list[Cut]:
        size = self._folder.size(name) or 0
        if size <= to:
            return []
        write_at(self._folder, name, to)
        return [Cut(self._folder.where(name), to, size - to)]
