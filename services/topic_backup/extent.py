"""How far a segment is to be read, and where to begin: as its index says, if the index is true.

Indexes are only believed where the records bear them out, so a missing, stale or damaged one
costs time and never a record.
"""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.segment_index import IndexedRecord, SegmentIndex, open_index
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, Placed, read_segment


@dataclass(frozen=True, slots=True)
class SegmentExtent:
    """How much of one segment is to be read."""

    prefix: str
    start_offset: int
    end: int | None
    """Byte of the records file; None: to the last whole record."""


def seek(folder: Folder, extent: SegmentExtent, start: int, max_record_bytes: int) -> int:
    """A place to begin reading from so that no record from offset *start* on is missed.

    That of any record older than *start*, for offsets rise: the last one the index names, if
    the record is there.
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


def indexed_end(
    folder: Folder, prefix: str, size: int, max_record_bytes: int
) -> tuple[int | None, int]:
    """Where the last indexed record ends within *size* bytes, and where the index says it does.

    The first is None when the index does not fit the records; then its word counts for nothing.
    """
    index = open_index(folder, prefix) if size else None
    if index is None:
        return None, 0
    with index:
        last = index.last
        if last is None:
            return FIRST_POSITION, 0
        if last.end > size:
            return _torn_end(folder, prefix, index, size, max_record_bytes), last.end
    true = _tells_truth(folder, prefix, last, max_record_bytes)
    return (last.end, last.end) if true else (None, 0)


def _torn_end(
    folder: Folder, prefix: str, index: SegmentIndex, size: int, max_record_bytes: int
) -> int | None:
    """Where the last record that is wholly there ends, of an index that is ahead of its records.

    None when that is not what happened, but the index is wrong.
    """
    number = index.count_within(size)
    if number == len(index):
        return None
    end = index[number - 1].end if number else FIRST_POSITION
    torn = index[number].position == end and not _is_whole(folder, prefix, end, max_record_bytes)
    true = number == 0 or _tells_truth(folder, prefix, index[number - 1], max_record_bytes)
    return end if torn and true else None


def _tells_truth(folder: Folder, prefix: str, entry: IndexedRecord, max_record_bytes: int) -> bool:
    """Whether the record that *entry* speaks of lies where it says."""
    name = records_name(prefix)
    if entry.position < FIRST_POSITION or entry.end > (folder.size(name) or 0):
        return False
    placed = _at(folder, name, entry.position, entry.end, max_record_bytes)
    return placed is not None and IndexedRecord.of(placed) == entry


def _is_whole(folder: Folder, prefix: str, position: int, max_record_bytes: int) -> bool:
    return _at(folder, records_name(prefix), position, None, max_record_bytes) is not None


def _at(
    folder: Folder, name: str, position: int, end: int | None, max_record_bytes: int
) -> Placed | None:
    """The record at *position*, if there is one."""
    records = read_segment(folder, name, start=position, end=end, max_record_bytes=max_record_bytes)
    try:
        return next(records, None)
    except DamagedBackup:
        return None
