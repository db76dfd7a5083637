"""Reads the records of one backed-up partition in offset order, and reports what it leaves out.

A segment is read up to its committed size; without a manifest (a backup of Kafka Backup) up to its
last indexed record, like Kafka Backup's readers; without a matching index up to its last complete
record. The salvaging reader reads a segment that differs from the commit and every segment without
a manifest; records that it cannot prove are left out as damage. An index says where reading begins
only where the records confirm it: a missing or damaged one costs time, but never a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest

from breakglass.services.errors import BreakglassError, DamagedBackup
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import PartitionFiles, listing, records_name
from breakglass.services.topic_backup.record import MAX_RECORD_BYTES
from breakglass.services.topic_backup.salvage import UnreadBytes, UnreadCause, salvaged
from breakglass.services.topic_backup.segment_bytes import OTHER_BYTES, SegmentExtent
from breakglass.services.topic_backup.segment_index import (
    IndexedRecord,
    open_index,
    read_partition_index,
)
from breakglass.services.topic_backup.segment_reader import (
    FIRST_POSITION,
    FoundRecord,
    Proof,
    read_segment,
)
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary


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
    # Whether the record of the entry is at the position that the entry names.
    name = records_name(extent.prefix)
    if entry.position < FIRST_POSITION or entry.end > (folder.size(name) or 0):
        return FIRST_POSITION
    records = read_segment(
        folder,
        name,
        start=entry.position,
        end=entry.end,
        max_record_bytes=max_record_bytes,
        opened=extent.opened(folder),
    )
    try:
        found = next(records, None)
    except DamagedBackup:
        return FIRST_POSITION
    true = found is not None and IndexedRecord.of(found) == entry
    return entry.position if true else FIRST_POSITION


@dataclass(slots=True)
class ProvenStretch:
    """Consecutive records with the same proof."""

    proof: Proof
    first: int
    """The first record's offset."""
    last: int
    records: int = 1

    def __str__(self) -> str:
        return f"offsets {self.first}..{self.last}, {self.records:,} records: {self.proof}"


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
            self.segments = list(self._by_files(partition, files))
        else:
            self.segments = list(self._by_manifest(names, files, committed))

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
            yield found.record

    def found(self, start: int = 0, end: int | None = None) -> Iterator[FoundRecord]:
        """The same records with their positions and proofs."""
        for segment in needed(self.segments, start):
            if end is not None and segment.start_offset >= end:
                return
            for found in self.of_segment(segment, start):
                offset = found.record.offset
                if end is not None and offset >= end:
                    summary = segment.summary
                    if summary is not None and found.proof is not Proof.COMMITTED:
                        # Which record was changed, nobody has read yet.
                        self._leave_out(_in_doubt(self._folder, segment, summary, OTHER_BYTES))
                    return
                if offset >= start:
                    yield found

    def of_segment(self, segment: SegmentExtent, start: int = 0) -> Iterator[FoundRecord]:
        for piece in pieces_of(self._folder, segment, start, self._max_record_bytes):
            if isinstance(piece, FoundRecord):
                last = self.stretches[-1] if self.stretches else None
                offset = piece.record.offset
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

    def _by_manifest(
        self, names: Collection[str], files: PartitionFiles, committed: PartitionSummary
    ) -> Iterator[SegmentExtent]:
        there, flat = set(names), _with_records(files)
        for segment in committed.segments:
            if "/" in segment.prefix:
                prefix = segment.prefix if records_name(segment.prefix) in there else None
            else:
                prefix = flat.pop(segment.start_offset, None)
            if prefix is not None and "/" not in prefix:
                # A file in a run's folder is never appended to.
                self._note_tail(prefix, segment.records_bytes)
            yield SegmentExtent(
                prefix or segment.prefix,
                segment.start_offset,
                segment.records_bytes,
                segment.next_offset,
                segment,
                "" if prefix is not None else MISSING,
            )
        for prefix in flat.values():
            self._note_tail(prefix, 0)

    def _by_files(self, partition: int, files: PartitionFiles) -> Iterator[SegmentExtent]:
        """The segments of a backup of Kafka Backup, with missing ones that its index names."""
        named: dict[int, str] = {}
        if self._folder.original:
            # The index only saves a listing; `verify` reports that it cannot be read.
            with suppress(BreakglassError):
                entries = read_partition_index(self._folder, partition)
                named = {entry.start_offset: entry.prefix for entry in entries}
        there = _with_records(files)
        starts = sorted(there.keys() | named.keys())
        for start, following in zip_longest(starts, starts[1:]):
            missing = "" if start in there else MISSING_IN_INDEX
            prefix = there.get(start) or named[start]
            yield SegmentExtent(prefix, start, None, following, None, missing)

    def _note_tail(self, prefix: str, end: int) -> None:
        name = records_name(prefix)
        size = self._folder.size(name) or 0
        if size > end:
            where = self._folder.where(name)
            self._leave_out(LeftOut(where, end, size - end, NOT_COMMITTED))


def _with_records(files: PartitionFiles) -> dict[int, str]:
    return {one.start_offset: one.prefix for one in files.segments if one.has_records}


def needed(segments: Sequence[SegmentExtent], start: int) -> Sequence[SegmentExtent]:
    """The *segments* without those before the one that has the offset *start*."""
    later = [number for number, one in enumerate(segments) if one.start_offset <= start]
    return segments[later[-1] if later else 0 :]


def pieces_of(
    folder: Folder, segment: SegmentExtent, start: int = 0, max_record_bytes: int = MAX_RECORD_BYTES
) -> Iterator[FoundRecord | LeftOut]:
    """The records of one segment from offset *start* on, and the bytes that cannot be read."""
    name, summary = records_name(segment.prefix), segment.summary
    if segment.missing:
        first = summary.first_offset if summary else segment.start_offset
        size, end = summary.records_bytes if summary else 0, segment.next_offset
        yield LeftOut(folder.where(name), 0, size, segment.missing, True, first, end)
    elif summary is None:
        yield from _salvaged(folder, segment, start, max_record_bytes)
    elif wrong := segment.altered(folder):
        yield from _changed(folder, segment, summary, start, max_record_bytes, wrong)
    else:
        position = seek(folder, segment, start, max_record_bytes)
        yield from read_segment(
            folder,
            name,
            start=position,
            end=segment.end,
            max_record_bytes=max_record_bytes,
            opened=segment.opened(folder),
        )


def _changed(
    folder: Folder,
    segment: SegmentExtent,
    summary: SegmentSummary,
    start: int,
    max_record_bytes: int,
    wrong: str,
) -> Iterator[FoundRecord | LeftOut]:
    """The records that can be proved in a segment that differs from the commit."""
    name, end = records_name(segment.prefix), summary.next_offset
    last = start - 1 if summary.first_offset is None else max(start, summary.first_offset) - 1
    whole = True
    try:
        for piece in _salvaged(folder, segment, start, max_record_bytes):
            if isinstance(piece, FoundRecord):
                last = max(last, piece.record.offset)
            else:
                whole = whole and not piece.damage
            yield piece
    except DamagedBackup as damage:
        # Of a compressed or encrypted file, which cannot be read behind the damage.
        whole, wrong = False, damage.reason
    if end is not None and last + 1 < end:
        sealed = not folder.original
        size = 0 if sealed else folder.size(name) or 0
        left = summary.records_bytes - size
        yield LeftOut(folder.where(name), size, left, wrong, True, last + 1, end)
    elif whole and (end is not None or wrong != OTHER_BYTES):
        # Every record is well-formed, so nothing shows which of them was changed.
        yield _in_doubt(folder, segment, summary, wrong)


def _in_doubt(
    folder: Folder, segment: SegmentExtent, summary: SegmentSummary, wrong: str
) -> LeftOut:
    """A segment whose records are all given, though nothing shows which of them was changed."""
    where, reason = folder.where(records_name(segment.prefix)), f"{wrong}{IN_DOUBT}"
    size, first = summary.records_bytes, summary.first_offset
    return LeftOut(where, 0, size, reason, True, first, summary.next_offset)


def _salvaged(
    folder: Folder, segment: SegmentExtent, start: int, max_record_bytes: int
) -> Iterator[FoundRecord | LeftOut]:
    where = folder.where(records_name(segment.prefix))
    for piece in salvaged(folder, segment, start, max_record_bytes):
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

    Raises DamagedBackup: the extents are damaged.
    """
    for extent in needed(extents, start):
        position = seek(folder, extent, start, MAX_RECORD_BYTES)
        name = records_name(extent.prefix)
        for found in read_segment(folder, name, start=position, end=extent.end):
            if found.record.offset >= start:
                yield found.record
