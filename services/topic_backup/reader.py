"""Reads the records of one backed-up partition in offset order, and reports what it leaves out.

A segment is read up to its committed size; without a manifest (a backup of Kafka Backup) up to its
last indexed record, like Kafka Backup's readers; without a matching index up to its last complete
record. The salvaging reader reads a segment that differs from the commit and every segment without
a manifest; records that it cannot prove are left out as damage. An index says where reading begins
only where the records confirm it: a missing or damaged one costs time, but never a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from breakglass.services.errors import BreakglassError, DamagedBackup
from breakglass.services.topic_backup import partition_index
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import PartitionFiles, listing, records_name
from breakglass.services.topic_backup.record import MAX_RECORD_BYTES, Record
from breakglass.services.topic_backup.salvage.finding import (
    FoundRecord,
    Proof,
    ProvenStretch,
    UnreadBytes,
    UnreadCause,
)
from breakglass.services.topic_backup.salvage.salvage import salvaged
from breakglass.services.topic_backup.segment_index import IndexedRecord, open_index
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, read_segment
from breakglass.services.topic_backup.soundness import OTHER_BYTES, altered
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary


@dataclass(frozen=True, slots=True)
class SegmentExtent:
    """How much of one segment is read."""

    prefix: str
    start_offset: int
    end: int | None
    """Where to stop in the records file; None: after the last complete record."""


def seek(folder: Folder, extent: SegmentExtent, start: int, max_record_bytes: int) -> int:
    """A position from which a reader misses no record at or after offset *start*.

    Offsets rise, so the position of any earlier record will do. The result is the last such record
    that the index names, if the record is there.
    """
    index = open_index(folder, extent.prefix) if start > extent.start_offset else None
    if index is None:
        return FIRST_POSITION
    with index:
        older = index.first_from(start) - 1
        entry = index[older] if older >= 0 else None
    if entry is None or entry.offset >= start:
        return FIRST_POSITION
    true = _tells_truth(folder, extent.prefix, entry, max_record_bytes)
    return entry.position if true else FIRST_POSITION


def _tells_truth(folder: Folder, prefix: str, entry: IndexedRecord, max_record_bytes: int) -> bool:
    """Whether the record of *entry* is at the position that *entry* names."""
    name = records_name(prefix)
    if entry.position < FIRST_POSITION or entry.end > (folder.size(name) or 0):
        return False
    records = read_segment(
        folder, name, start=entry.position, end=entry.end, max_record_bytes=max_record_bytes
    )
    try:
        placed = next(records, None)
    except DamagedBackup:
        return False
    return placed is not None and IndexedRecord.of(placed) == entry


MOST_STRETCHES = 10_000
"""Maximum number of stretches of records that are kept, each with one proof."""
IN_DOUBT = "; which record was changed is not known"
NOT_COMMITTED = "not committed"
MISSING = "the manifest has this segment, the folder has not"
MISSING_IN_INDEX = "the partition's index has this segment, the folder has not"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Bytes of a backup that are not read, and why."""

    file: str
    position: int
    """Where they begin in the file."""
    size: int
    """How many bytes."""
    reason: str
    damage: bool = False
    """Whether they are part of the backup but differ from what was written."""
    start_offset: int | None = None
    """The first offset that may be missing as a result; None: no offset is missing."""
    end_offset: int | None = None
    """The offset after the last missing one; None: unknown."""

    @property
    def offsets(self) -> str:
        """The offsets that may be missing: ``36..99``; ``36..`` if the end is unknown."""
        if self.start_offset is None:
            return ""
        last = "" if self.end_offset is None else str(self.end_offset - 1)
        return f"{self.start_offset}..{last}"

    def __str__(self) -> str:
        lost = f", offsets {self.offsets}" if self.offsets else ""
        how = "in doubt" if self.reason.endswith(IN_DOUBT) else "left out"
        return (
            f"{self.file}: {self.size} bytes from byte {self.position} {how}{lost}: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class SegmentAt:
    """One segment of a partition, present or missing."""

    extent: SegmentExtent
    next_offset: int | None
    """The segment's offsets are lower; None: no segment follows."""
    summary: SegmentSummary | None = None
    """The segment as it was committed; None without a manifest."""
    missing: str = ""
    """Why the segment cannot be read; empty: it can."""


class PartitionReader:
    """Reads one partition of a backup. `left_out` collects what had to be left out."""

    def __init__(
        self,
        folder: Folder,
        partition: int,
        committed: PartitionSummary | None,
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        """List the segments; nothing is read yet.

        *committed* is the partition's entry in the manifest; None without a manifest.
        """
        self.left_out: list[LeftOut] = []
        self.unproved = committed.unproved if committed is not None else ()
        """What could not be proved when this copy of a damaged backup was made."""
        self.stretches: list[ProvenStretch] = []
        """How the records were proved that the salvaging reader read."""
        self._folder = folder
        self._max_record_bytes = max_record_bytes
        names = folder.names()
        files = listing(names).get(partition) or PartitionFiles()
        if committed is None:
            self.segments = list(_found(folder, partition, files))
        else:
            self.segments = list(self._committed(names, files, committed))

    @property
    def extents(self) -> Sequence[SegmentExtent]:
        """How far each present segment is read, sorted by offset."""
        return [segment.extent for segment in self.segments if not segment.missing]

    @property
    def damages(self) -> list[LeftOut]:
        """What is left out although it is part of the backup."""
        return [out for out in self.left_out if out.damage]

    @property
    def salvaged(self) -> bool:
        """Whether anything was salvaged: damage, stray bytes, or records proved in another way.

        Also what a copy of a damaged backup could not prove.
        """
        other = any(
            stretch.proof not in (Proof.INDEX, Proof.COMMITTED) for stretch in self.stretches
        )
        return (
            bool(self.unproved)
            or other
            or any(out.damage or out.reason in _STRAY for out in self.left_out)
        )

    def records(self, start: int = 0, end: int | None = None) -> Iterator[Record]:
        """The complete records with offsets in ``[start, end)``, in offset order."""
        for found in self.found(start, end):
            yield found.placed.record

    def found(self, start: int = 0, end: int | None = None) -> Iterator[FoundRecord]:
        """The same records with their positions and proofs."""
        held = enumerate(self.segments)
        later = [number for number, one in held if one.extent.start_offset <= start]
        for segment in self.segments[(later[-1] if later else 0) :]:
            if end is not None and segment.extent.start_offset >= end:
                return
            for found in self.of_segment(segment, start):
                offset = found.placed.record.offset
                if end is not None and offset >= end:
                    if segment.summary is not None and found.proof is not Proof.COMMITTED:
                        # Which record was changed, nobody has read yet.
                        self._leave_out(_in_doubt(self._folder, segment, OTHER_BYTES))
                    return
                if offset >= start:
                    yield found

    def of_segment(self, segment: SegmentAt, start: int = 0) -> Iterator[FoundRecord]:
        for piece in pieces_of(self._folder, segment, start, self._max_record_bytes):
            if isinstance(piece, FoundRecord):
                last = self.stretches[-1] if self.stretches else None
                offset = piece.placed.record.offset
                if last is not None and last.proof is piece.proof and last.last < offset:
                    last.last, last.records = offset, last.records + 1
                elif len(self.stretches) < MOST_STRETCHES:
                    self.stretches.append(ProvenStretch(piece.proof, offset, offset))
                yield piece
            else:
                self._leave_out(piece)

    def _leave_out(self, one: LeftOut) -> None:
        if one not in self.left_out:
            self.left_out.append(one)

    def _committed(
        self, names: Collection[str], files: PartitionFiles, committed: PartitionSummary
    ) -> Iterator[SegmentAt]:
        there = set(names)
        flat = {
            segment.start_offset: segment.prefix
            for segment in files.segments
            if segment.has_records
        }
        for segment in committed.segments:
            if "/" in segment.prefix:
                prefix = segment.prefix if records_name(segment.prefix) in there else None
            else:
                prefix = flat.pop(segment.start_offset, None)
            if prefix is not None and "/" not in prefix:
                # A file in a run's folder is never appended to.
                self._note_tail(prefix, segment.records_bytes)
            last = segment.last_offset
            yield SegmentAt(
                SegmentExtent(
                    prefix or segment.prefix, segment.start_offset, segment.records_bytes
                ),
                None if last is None else last + 1,
                segment,
                "" if prefix is not None else MISSING,
            )
        for prefix in flat.values():
            self._note_tail(prefix, 0)

    def _note_tail(self, prefix: str, end: int) -> None:
        name = records_name(prefix)
        size = self._folder.size(name) or 0
        if size > end:
            where = self._folder.where(name)
            self._leave_out(LeftOut(where, end, size - end, NOT_COMMITTED))


def _found(folder: Folder, partition: int, files: PartitionFiles) -> Iterator[SegmentAt]:
    """The segments of a backup of Kafka Backup, with missing segments that its index names."""
    there = {
        segment.start_offset: segment.prefix for segment in files.segments if segment.has_records
    }
    named = _named(folder, partition)
    starts = sorted(there.keys() | named.keys())
    for number, start in enumerate(starts):
        following = starts[number + 1] if number + 1 < len(starts) else None
        missing = "" if start in there else MISSING_IN_INDEX
        prefix = there.get(start) or named[start]
        yield SegmentAt(SegmentExtent(prefix, start, None), following, None, missing)


def _named(folder: Folder, partition: int) -> dict[int, str]:
    if not folder.original:
        return {}
    try:
        return {
            entry.start_offset: entry.prefix for entry in partition_index.read(folder, partition)
        }
    except BreakglassError:
        # The index only saves a listing; `verify` reports that it cannot be read.
        return {}


def pieces_of(
    folder: Folder, segment: SegmentAt, start: int = 0, max_record_bytes: int = MAX_RECORD_BYTES
) -> Iterator[FoundRecord | LeftOut]:
    """The records of one segment from offset *start* on, and the bytes that cannot be read."""
    summary, extent = segment.summary, segment.extent
    if segment.missing:
        yield _gone(folder, segment)
    elif summary is None:
        yield from _salvaged(folder, segment, start, max_record_bytes)
    elif wrong := altered(folder, summary_at(summary, extent)):
        yield from _changed(folder, segment, start, max_record_bytes, wrong)
    else:
        position = seek(folder, extent, start, max_record_bytes)
        name = records_name(extent.prefix)
        for placed in read_segment(
            folder, name, start=position, end=extent.end, max_record_bytes=max_record_bytes
        ):
            yield FoundRecord(placed, Proof.COMMITTED)


def summary_at(summary: SegmentSummary, extent: SegmentExtent) -> SegmentSummary:
    """The segment with the name of its file: names may pad the same offset differently."""
    return summary if summary.prefix == extent.prefix else replace(summary, prefix=extent.prefix)


def _gone(folder: Folder, segment: SegmentAt) -> LeftOut:
    summary = segment.summary
    where = folder.where(records_name(segment.extent.prefix))
    if summary is None:
        start, end = segment.extent.start_offset, segment.next_offset
        return LeftOut(where, 0, 0, segment.missing, True, start, end)
    end = None if summary.last_offset is None else summary.last_offset + 1
    size = summary.records_bytes
    return LeftOut(where, 0, size, segment.missing, True, summary.first_offset, end)


def _changed(
    folder: Folder, segment: SegmentAt, start: int, max_record_bytes: int, wrong: str
) -> Iterator[FoundRecord | LeftOut]:
    """The records that can be proved in a segment that differs from the commit."""
    summary = segment.summary
    assert summary is not None
    where = folder.where(records_name(segment.extent.prefix))
    last = start - 1 if summary.first_offset is None else max(start, summary.first_offset) - 1
    whole = True
    try:
        for piece in _salvaged(folder, segment, start, max_record_bytes):
            if isinstance(piece, FoundRecord):
                last = max(last, piece.placed.record.offset)
            else:
                whole = whole and not piece.damage
            yield piece
    except DamagedBackup as damage:
        # Of a compressed or encrypted file, which cannot be read behind the damage.
        whole, wrong = False, damage.reason
    end = None if summary.last_offset is None else summary.last_offset + 1
    if end is not None and last + 1 < end:
        sealed = not folder.original
        size = 0 if sealed else folder.size(records_name(segment.extent.prefix)) or 0
        yield LeftOut(where, size, summary.records_bytes - size, wrong, True, last + 1, end)
    elif whole and (end is not None or wrong != OTHER_BYTES):
        # Every record is well-formed, so nothing shows which of them was changed.
        yield _in_doubt(folder, segment, wrong)


def _in_doubt(folder: Folder, segment: SegmentAt, wrong: str) -> LeftOut:
    """A segment whose records are all given, though nothing shows which of them was changed."""
    summary = segment.summary
    assert summary is not None
    where = folder.where(records_name(segment.extent.prefix))
    end = None if summary.last_offset is None else summary.last_offset + 1
    size, first = summary.records_bytes, summary.first_offset
    return LeftOut(where, 0, size, f"{wrong}{IN_DOUBT}", True, first, end)


def _salvaged(
    folder: Folder, segment: SegmentAt, start: int, max_record_bytes: int
) -> Iterator[FoundRecord | LeftOut]:
    extent, summary = segment.extent, segment.summary
    first = extent.start_offset
    if summary is not None and summary.first_offset is not None:
        first = summary.first_offset
    where = folder.where(records_name(extent.prefix))
    for piece in salvaged(
        folder,
        extent.prefix,
        start_offset=first,
        next_offset=segment.next_offset,
        end=extent.end,
        start=start,
        max_record_bytes=max_record_bytes,
        committed=summary is not None,
    ):
        yield piece if isinstance(piece, FoundRecord) else _left_out(where, piece)


def _left_out(where: str, one: UnreadBytes) -> LeftOut:
    damage = one.loses or one.whole_record
    lost = damage and (one.end_offset is None or one.start_offset < one.end_offset)
    return LeftOut(
        where,
        one.position,
        one.size,
        str(one.cause),
        damage,
        one.start_offset if lost else None,
        one.end_offset if lost else None,
    )


_STRAY = frozenset({str(UnreadCause.DOUBLE), str(UnreadCause.STRAY)})


def read_extents(folder: Folder, extents: Sequence[SegmentExtent], start: int) -> Iterator[Record]:
    """The records of *extents*, which must be intact, from offset *start* on.

    Raises:
        DamagedBackup: the extents are damaged.
    """
    later = [number for number, extent in enumerate(extents) if extent.start_offset <= start]
    for extent in extents[later[-1] if later else 0 :]:
        position = seek(folder, extent, start, MAX_RECORD_BYTES)
        name = records_name(extent.prefix)
        for placed in read_segment(folder, name, start=position, end=extent.end):
            if placed.record.offset >= start:
                yield placed.record
