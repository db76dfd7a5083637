"""Opens the files of a segment that may be damaged, and yields its records and unreadable bytes."""

from __future__ import annotations

from collections.abc import Iterator

from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.record import MAX_RECORD_BYTES
from breakglass.services.topic_backup.salvage.entries import Ahead, read_entries
from breakglass.services.topic_backup.salvage.finding import Piece, UnreadBytes, UnreadCause
from breakglass.services.topic_backup.salvage.records import RecordsFile
from breakglass.services.topic_backup.salvage.segment import SegmentSalvage
from breakglass.services.topic_backup.segment_index import open_index
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, check_magic


def salvaged(
    folder: Folder,
    prefix: str,
    *,
    start_offset: int,
    next_offset: int | None,
    end: int | None = None,
    start: int = 0,
    max_record_bytes: int = MAX_RECORD_BYTES,
    committed: bool = False,
) -> Iterator[Piece]:
    """The pieces of one segment from offset *start* on, possibly with some before it.

    The segment's offsets are in ``[start_offset, next_offset)``; *end* is its committed size. The
    version of a *committed* segment is known, even if its first byte is damaged.

    Raises:
        UnsupportedSchema: the file has another version of the format.
        StorageError: the file cannot be read.
    """
    name = records_name(prefix)
    where = folder.where(name)
    with folder.open(name) as file:
        with storage_errors(where):
            size = file.seek(0, 2)
        entries = Ahead(read_entries(folder, prefix, size))
        if size < FIRST_POSITION:
            yield from _emptied(entries, start_offset)
            return
        if not committed:
            check_magic(file, where)
        records = RecordsFile(
            file, where, size if end is None else min(end, size), max_record_bytes
        )
        if _names_nothing(folder, prefix):
            yield from _unindexed(records, start_offset, next_offset)
            return
        number, begin, last = 0, FIRST_POSITION, None
        if start > start_offset:
            number, begin, last = _place(folder, prefix, records, start)
            entries = Ahead(read_entries(folder, prefix, size, number))
        yield from SegmentSalvage(
            records,
            entries,
            start_offset=start_offset,
            next_offset=next_offset,
            begin=begin,
            last_offset=last,
        ).pieces()


def _emptied(entries: Ahead, start_offset: int) -> Iterator[Piece]:
    last = entries.last()
    if last is not None:
        yield UnreadBytes(0, 0, UnreadCause.CUT, start_offset, last.offset + 1)


def _names_nothing(folder: Folder, prefix: str) -> bool:
    """Whether the index exists but has not even part of an entry."""
    index = open_index(folder, prefix)
    if index is None:
        return False
    with index:
        return folder.size(segment_index_name(prefix)) == FIRST_POSITION


def _unindexed(records: RecordsFile, start_offset: int, next_offset: int | None) -> Iterator[Piece]:
    if records.end > FIRST_POSITION:
        placed = records.at(FIRST_POSITION)
        offset = -1 if placed is None else placed.record.offset
        whole = placed is not None and start_offset <= offset
        first = max(start_offset, offset)
        yield UnreadBytes(FIRST_POSITION, records.end, UnreadCause.TAIL, first, next_offset, whole)


def _place(
    folder: Folder, prefix: str, records: RecordsFile, start: int
) -> tuple[int, int, int | None]:
    """Where to begin: number of the entry, position, and the offset before it.

    Uses the index only if it ends where the records end, because then nothing is shifted.
    """
    nowhere = (0, FIRST_POSITION, None)
    index = open_index(folder, prefix)
    if index is None:
        return nowhere
    with index:
        last = index.last
        if last is None or last.end != records.end:
            return nowhere
        number = index.first_from(start) - 1
        if number < 1:
            return nowhere
        before, entry = index[number - 1], index[number]
    placed = records.at(entry.position)
    true = placed is not None and (placed.record.offset, placed.length) == (
        entry.offset,
        entry.length,
    )
    if not true or before.end != entry.position or not before.offset < entry.offset < start:
        return nowhere
    return number, entry.position, before.offset
