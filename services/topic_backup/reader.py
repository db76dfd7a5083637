"""Records of one partition of a backup, in order, and a word on everything that is left out.

How far a segment is read: to where the manifest committed it; without a manifest (a backup of
the original's) to its last indexed record, as the original's readers do; without an index that
fits, to its last whole record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from services.errors import DamagedBackup
from services.topic_backup.extent import Extent, indexed_end, seek
from services.topic_backup.folder import Folder
from services.topic_backup.layout import Segment, listing, records_name
from services.topic_backup.record import MAX_RECORD_BYTES, Record
from services.topic_backup.segment_reader import Placed, read_segment
from services.topic_backup.summary import PartitionSummary


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Bytes of a backup that are not read, and why."""

    file: str
    position: int
    """Bytes before them in the file."""
    size: int
    """Bytes."""
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.size} bytes from byte {self.position} left out: {self.reason}"


class PartitionReader:
    """One partition of a backup. What had to be left out gathers in `left_out`."""

    def __init__(
        self,
        folder: Folder,
        partition: int,
        committed: PartitionSummary | None,
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        """Look at the segments; nothing is read yet.

        *committed* is the partition's entry of the manifest, None where there is no manifest.
        """
        self.left_out: list[LeftOut] = []
        self._folder = folder
        self._max_record_bytes = max_record_bytes
        names = folder.names()
        files = listing(names).get(partition)
        found = files.segments if files else []
        if committed is None:
            self._extents = [self._indexed(one) for one in found if one.has_records]
        else:
            self._extents = list(self._committed(names, found, committed))

    @property
    def extents(self) -> Sequence[Extent]:
        """How far each segment is read, by offset."""
        return self._extents

    def records(self, start: int = 0, end: int | None = None) -> Iterator[Record]:
        """The records with offsets in ``[start, end)``.

        Raises:
            DamagedBackup: with everything before the damage yielded.
        """
        read = read_extents(
            self._folder,
            self._extents,
            start,
            note=self.left_out.append,
            max_record_bytes=self._max_record_bytes,
        )
        for record in read:
            if end is not None and record.offset >= end:
                return
            yield record

    def _committed(
        self, names: Collection[str], found: Sequence[Segment], committed: PartitionSummary
    ) -> Iterator[Extent]:
        there = set(names)
        flat = {one.start_offset: one.prefix for one in found if one.has_records}
        begun = False
        for segment in committed.segments:
            if "/" in segment.prefix:
                prefix = segment.prefix if records_name(segment.prefix) in there else None
            else:
                prefix = flat.pop(segment.start_offset, None)
            if prefix is not None:
                self._note_tail(prefix, segment.records_bytes, "not committed")
                yield Extent(prefix, segment.start_offset, segment.records_bytes)
                begun = True
            elif begun:
                where = self._folder.where(records_name(segment.prefix))
                raise DamagedBackup(where, 0, "the manifest has this segment, the folder has not")
            else:
                self._note(segment.prefix, 0, segment.records_bytes, "deleted")
        for prefix in flat.values():
            self._note_tail(prefix, 0, "not committed")

    def _indexed(self, segment: Segment) -> Extent:
        size = self._folder.size(records_name(segment.prefix)) or 0
        end, named = indexed_end(self._folder, segment.prefix, size, self._max_record_bytes)
        if end is not None and named > size:
            self._note(segment.prefix, size, named - size, "named by the index and not there")
        if end is not None:
            self._note_tail(segment.prefix, end, "behind the last indexed record")
        return Extent(segment.prefix, segment.start_offset, end)

    def _note_tail(self, prefix: str, end: int, reason: str) -> None:
        size = self._folder.size(records_name(prefix)) or 0
        if size > end:
            self._note(prefix, end, size - end, reason)

    def _note(self, prefix: str, position: int, size: int, reason: str) -> None:
        where = self._folder.where(records_name(prefix))
        self.left_out.append(LeftOut(where, position, size, reason))


def read_extents(
    folder: Folder,
    extents: Sequence[Extent],
    start: int,
    *,
    note: Callable[[LeftOut], None] = lambda _: None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[Record]:
    """The records of *extents* from offset *start* on.

    A record torn at the end of a segment whose extent is open is told to *note*.

    Raises:
        DamagedBackup: as `read_segment`, and when offsets do not rise from segment to segment.
    """
    last_offset = -1
    for extent in extents[_first_needed(extents, start) :]:
        for placed in _read_extent(folder, extent, start, note, max_record_bytes):
            record = placed.record
            if record.offset <= last_offset:
                where = folder.where(records_name(extent.prefix))
                reason = f"offset {record.offset} follows offset {last_offset}"
                raise DamagedBackup(where, placed.position, reason)
            last_offset = record.offset
            if record.offset >= start:
                yield record


def _first_needed(extents: Sequence[Extent], start: int) -> int:
    later = [number for number, extent in enumerate(extents) if extent.start_offset <= start]
    return later[-1] if later else 0


def _read_extent(
    folder: Folder,
    extent: Extent,
    start: int,
    note: Callable[[LeftOut], None],
    max_record_bytes: int,
) -> Iterator[Placed]:
    name = records_name(extent.prefix)
    position = seek(folder, extent, start, max_record_bytes)
    try:
        yield from read_segment(
            folder, name, start=position, end=extent.end, max_record_bytes=max_record_bytes
        )
    except DamagedBackup as damage:
        if not damage.torn or extent.end is not None:
            raise
        size = (folder.size(name) or 0) - damage.position
        note(LeftOut(damage.file, damage.position, size, damage.reason))
