"""Finds how far a segment is read and where reading begins, from its index where that is correct.

An index is used only where the records confirm it. A missing, outdated or damaged index costs
time, but never a record.
"""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.segment_index import IndexedRecord, open_index
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, Placed, read_segment


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
    placed = _at(folder, name, entry.position, entry.end, max_record_bytes)
    return placed is not None and IndexedRecord.of(placed) == entry


def _is_whole(folder: Folder, prefix: str, position: int, max_record_bytes: int) -> bool:
    return _at(folder, records_name(prefix), position, None, max_record_bytes) is not None


def _at(
    folder: Folder, name: str, position: int, end: int | None, max_record_bytes: int
) -> Placed | None:
    """The record at *position*, or None."""
    records = read_segment(folder, name, start=position, end=end, max_record_bytes=max_record_bytes)
    try:
        return next(records, None)
    except DamagedBackup:
        return None
