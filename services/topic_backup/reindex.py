"""Indexes rebuilt from the records files alone, which is all that a backup cannot do without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup import partition_index
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import (
    listing,
    partition_index_name,
    records_name,
    segment_index_name,
)
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.record import MAX_RECORD_BYTES
from breakglass.services.topic_backup.segment_index import IndexedRecord, encode_entry
from breakglass.services.topic_backup.segment_reader import (
    FIRST_POSITION,
    MAGIC,
    Placed,
    read_segment,
)


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

    Each covers every whole record. Old indexes are replaced one by one, atomically; records are
    not touched, nor is the index of a segment that is damaged before its end: `mending` reads both.

    Raises:
        DamagedBackup: a records file is empty or its segment has two names.
        UnsupportedSchema: a records file of another version.
    """
    segments = _segments(folder, partition)
    rebuilt = tuple(_rebuild(folder, partition, one[0], max_record_bytes) for one in segments)
    write_partition_index(folder, partition, segments)
    return rebuilt


def _segments(folder: Folder, partition: int) -> list[tuple[str, int]]:
    """Name and start offset of each segment with records."""
    names = folder.names()
    files = listing(names).get(partition)
    found = files.segments if files else []
    flat = [(one.prefix, one.start_offset) for one in found if one.has_records]
    manifest = None if folder.original else read_manifest(folder)
    held = manifest.partition(partition) if manifest else None
    if held is None:
        return flat
    there = set(names)
    return [
        (one.prefix, one.start_offset) for one in held.segments if records_name(one.prefix) in there
    ]


def write_partition_index(
    folder: Folder, partition: int, segments: Iterable[tuple[str, int]]
) -> None:
    """Put a whole partition index in place, for *segments* by name and start offset.

    Only where the original's readers would look for it.
    """
    if not folder.original:
        return
    entries = (partition_index.SegmentEntry(*segment) for segment in segments)
    folder.replace(partition_index_name(partition), [partition_index.encode(entries)])


def write_segment_index(folder: Folder, prefix: str, placed: Iterable[Placed]) -> None:
    """Put a whole segment index in place."""
    folder.replace(segment_index_name(prefix), _index_chunks(placed))


def _index_chunks(placed: Iterable[Placed]) -> Iterator[bytes]:
    yield MAGIC
    for one in placed:
        yield encode_entry(IndexedRecord.of(one))


def _rebuild(folder: Folder, partition: int, prefix: str, max_record_bytes: int) -> Reindexed:
    walk = _Walk(folder, prefix, max_record_bytes)
    for _ in walk:
        pass
    if walk.damage is None or walk.damage.torn:
        # What is damaged keeps its index: it is the second witness of what the records were.
        walk = _Walk(folder, prefix, max_record_bytes)
        write_segment_index(folder, prefix, walk)
    size = folder.size(records_name(prefix)) or 0
    return Reindexed(
        partition=partition,
        prefix=prefix,
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
