"""Prepares a partition for its next writer: cuts off what a killed writer left incomplete.

A record after the last commit stays if it is complete and has an index entry, which is written
only once the record is durable. Kafka Backup resumes in the same way, so records that it appended
stay. Nothing vouches for them: they stay unproved. Bytes that an index entry covers are never cut
off: they are damage, and raise an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.errors import BreakglassError, DamagedBackup
from breakglass.services.topic_backup.folder import AppendFolder, storage_errors, write_at
from breakglass.services.topic_backup.layout import Segment, records_name, segment_index_name
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_index import (
    ENTRY,
    IndexedRecord,
    SegmentEntry,
    SegmentIndex,
    open_index,
    read_partition_index,
    write_partition_index,
    write_segment_index,
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
    for segment in segments:
        if not segment.has_records:
            folder.remove(segment_index_name(segment.prefix))
    # Before the oldest committed segment is what a prune that was killed has not removed yet.
    done = committed.segments if committed else ()
    oldest = min((segment.start_offset for segment in done), default=0)
    there = [one for one in segments if one.has_records and one.start_offset >= oldest]
    _check_all_there(folder, done, there)
    cuts: list[Cut] = []
    digest: _Hash | None = None
    accounted = committed.next_offset if committed else None
    summaries = []
    for segment in there:
        known = committed.segment(segment.start_offset) if committed else None
        size = folder.size(records_name(segment.prefix)) or 0
        if known and size == known.records_bytes and segment is not there[-1]:
            summaries.append(known)
            continue
        if size == 0 and not known:
            size = len(MAGIC)
            folder.replace(records_name(segment.prefix), [MAGIC])
        tail = _Tail(folder, segment, size, known, accounted)
        summaries.append(tail.walk())
        accounted = tail.accounted
        cuts += tail.cut()
        digest = tail.digest
    latest = -1
    for summary in summaries:
        if summary.first_offset is None or summary.last_offset is None:
            continue
        if summary.first_offset <= latest:
            where = folder.where(records_name(summary.prefix))
            reason = f"offset {summary.first_offset} follows offset {latest}"
            raise DamagedBackup(where, FIRST_POSITION, reason)
        latest = summary.last_offset
    if there:
        wanted = tuple(SegmentEntry(segment.prefix, segment.start_offset) for segment in there)
        held: tuple[SegmentEntry, ...] | None = None
        with suppress(BreakglassError):
            held = read_partition_index(folder, partition)
        if held != wanted:
            write_partition_index(folder, partition, wanted)
    known_part = committed or PartitionSummary(partition, None, ())
    return Resumed(tuple(summaries), digest, tuple(cuts), _unproved(known_part, summaries))


def _check_all_there(
    folder: AppendFolder, committed: Sequence[SegmentSummary], segments: Sequence[Segment]
) -> None:
    """Check that only the oldest committed segments are missing, before those present."""
    there = {segment.start_offset for segment in segments}
    oldest = min(there, default=0)
    for done in committed:
        gone = done.start_offset not in there and (done.count or not there)
        if gone and (done.start_offset >= oldest or not there):
            where = folder.where(records_name(done.prefix))
            raise DamagedBackup(where, 0, "it was committed and is not there")


def _unproved(known: PartitionSummary, summaries: Sequence[SegmentSummary]) -> tuple[Unproved, ...]:
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
