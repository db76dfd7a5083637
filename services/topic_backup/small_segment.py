"""Small parts copied behind a small segment: frequent runs leave few segments so."""

from __future__ import annotations

from collections.abc import Iterable

from breakglass.services.topic_backup.addition import NewSegment, followed_by, placed
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.segment_bytes import chunks, moved_entries, sha256
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC
from breakglass.services.topic_backup.summary import SegmentSummary

SMALL_BYTES = 16 * 1024 * 1024
"""Segments and parts below this are put together."""


def fits(last: SegmentSummary, part: SegmentPart, most: int) -> bool:
    """Whether *part* is better appended to the segment before it, for which *most* bytes are."""
    together = last.records_bytes + part.records_bytes - len(MAGIC)
    return max(last.records_bytes, part.records_bytes) < SMALL_BYTES and together <= most


def appended(folder: LocalFolder, last: SegmentSummary, new: NewSegment) -> SegmentSummary:
    """Copy a part behind the segment *last*, durably, and remove its own files.

    Raises:
        DamagedBackup: a file of the part is shorter than it was written.
        StorageError: a file cannot be read or written.
    """
    part, name = new.part, records_name(last.prefix)
    records = chunks(folder, part.records, part.records_bytes, len(MAGIC))
    _write_behind(folder, name, last.records_bytes, records)
    entries = moved_entries(folder, part.index, part.count, last.records_bytes - FIRST_POSITION)
    at = FIRST_POSITION + last.count * ENTRY.size
    _write_behind(folder, segment_index_name(last.prefix), at, entries)
    folder.remove(part.records)
    folder.remove(part.index)
    behind = placed(new, last.prefix, part.first_offset, None)
    size = last.records_bytes + part.records_bytes - len(MAGIC)
    return followed_by(last, behind, sha256(folder, name, size, lambda _: None))


def _write_behind(folder: LocalFolder, name: str, at: int, content: Iterable[bytes]) -> None:
    """Put *content* at byte *at* of a file, durably; what lay there was never committed."""
    file = folder.append(name, at)
    try:
        for chunk in content:
            file.write(chunk)
        file.sync()
    finally:
        file.close()
