"""Indexes rebuilt from the records files alone, which is all that a backup cannot do without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from services.errors import DamagedBackup
from services.topic_backup import partition_index
from services.topic_backup.folder import Folder
from services.topic_backup.layout import (
    Segment,
    listing,
    partition_index_name,
    records_name,
    segment_index_name,
)
from services.topic_backup.record import MAX_RECORD_BYTES
from services.topic_backup.segment_index import Entry, encode_entry
from services.topic_backup.segment_reader import FIRST_POSITION, MAGIC, Placed, read_segment


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What the rebuilt index of one segment covers."""

    partition: int
    prefix: str
    entries: int
    end: int
    """Byte of the records file up to which records are whole."""
    left_out: int
    """Bytes behind it."""
    damage: str | None
    """Why reading ended there; None when nothing is left out."""
    torn: bool
    """What is left out is one record that was cut, as when a writer is killed."""


def reindex(
    folder: Folder, partition: int, *, max_record_bytes: int = MAX_RECORD_BYTES
) -> tuple[Reindexed, ...]:
    """Write the segment indexes and then the partition index of *partition* anew.

    Each covers every whole record up to the first damage. Old indexes are replaced one by one,
    atomically; records are not touched.

    Raises:
        DamagedBackup: a records file is empty or its segment has two names.
        UnsupportedSchema: a records file of another version.
    """
    files = listing(folder.names()).get(partition)
    segments = [one for one in files.segments if one.has_records] if files else []
    rebuilt = tuple(_rebuild(folder, segment, max_record_bytes) for segment in segments)
    write_partition_index(
        folder, partition, ((segment.prefix, segment.start_offset) for segment in segments)
    )
    return rebuilt


def write_partition_index(
    folder: Folder, partition: int, segments: Iterable[tuple[str, int]]
) -> None:
    """Put a whole partition index in place, for *segments* by name and start offset."""
    entries = (partition_index.Entry(*segment) for segment in segments)
    folder.replace(partition_index_name(partition), [partition_index.encode(entries)])


def write_segment_index(folder: Folder, prefix: str, placed: Iterable[Placed]) -> None:
    """Put a whole segment index in place."""
    folder.replace(segment_index_name(prefix), _index_chunks(placed))


def _index_chunks(placed: Iterable[Placed]) -> Iterator[bytes]:
    yield MAGIC
    for one in placed:
        yield encode_entry(Entry.of(one))


def _rebuild(folder: Folder, segment: Segment, max_record_bytes: int) -> Reindexed:
    walk = _Walk(folder, segment.prefix, max_record_bytes)
    write_segment_index(folder, segment.prefix, walk)
    size = folder.size(records_name(segment.prefix)) or 0
    return Reindexed(
        partition=segment.partition,
        prefix=segment.prefix,
        entries=walk.count,
        end=walk.end,
        left_out=size - walk.end,
        damage=walk.damage.reason if walk.damage else None,
        torn=walk.damage is not None and walk.damage.torn,
    )


class _Walk:
    """The whole records of a segment; keeps why and where they ended."""

    def __init__(self, folder: Folder, prefix: str, max_record_bytes: int) -> None:
        self._read = read_segment(folder, records_name(prefix), max_record_bytes=max_record_bytes)
        self.count = 0
        self.end = FIRST_POSITION
        self.damage: DamagedBackup | None = None

    def __iter__(self) -> Iterator[Placed]:
        try:
            for placed in self._read:
                yield placed
                self.count += 1
                self.end = placed.end
        except DamagedBackup as damage:
            if damage.position < FIRST_POSITION:
                raise
            self.damage = damage
