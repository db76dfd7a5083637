"""Rebuilds indexes from the records files, which are the only files that a backup needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

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
    FoundRecord,
    read_segment,
)


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What the rebuilt index of one segment covers."""

    partition: int
    prefix: str
    entries: int
    end: int
    """Where the complete records of the records file end."""
    left_out: int
    """How many bytes follow."""
    damage: str | None
    """Why reading stopped there; None if nothing is left out."""
    torn: bool
    """Whether the left-out bytes are one incomplete record, as after a killed writer."""


def reindex(
    folder: Folder, partition: int, *, max_record_bytes: int = MAX_RECORD_BYTES
) -> tuple[Reindexed, ...]:
    """Rewrite the segment indexes and then the partition index of *partition*.

    Each index covers every complete record and replaces the old index atomically. Records stay
    unchanged, and so does the index of a segment that is damaged before its end, because `mending`
    reads both.

    Raises:
        DamagedBackup: a records file is empty, or its segment has two names.
        UnsupportedSchema: a records file has another version.
    """
    segments = _segments(folder, partition)
    rebuilt = tuple(
        _rebuild(folder, partition, segment[0], max_record_bytes) for segment in segments
    )
    write_partition_index(folder, partition, segments)
    return rebuilt


def segments_of(folder: Folder, partition: int) -> tuple[str, ...]:
    """The names of the segments that `reindex` makes an index of."""
    return tuple(prefix for prefix, _ in _segments(folder, partition))


def _segments(folder: Folder, partition: int) -> list[tuple[str, int]]:
    """The name and start offset of each segment with records."""
    names = folder.names()
    files = listing(names).get(partition)
    found = files.segments if files else []
    flat = [(segment.prefix, segment.start_offset) for segment in found if segment.has_records]
    manifest = None if folder.original else read_manifest(folder)
    held = manifest.partition(partition) if manifest else None
    if held is None:
        return flat
    there = set(names)
    return [
        (segment.prefix, segment.start_offset)
        for segment in held.segments
        if records_name(segment.prefix) in there
    ]


def write_partition_index(
    folder: Folder, partition: int, segments: Iterable[tuple[str, int]]
) -> None:
    """Write a partition index with *segments*, given by name and start offset.

    Writes nothing in a folder where Kafka Backup's readers would not look for it.
    """
    if not folder.original:
        return
    entries = (partition_index.SegmentEntry(*segment) for segment in segments)
    folder.replace(partition_index_name(partition), [partition_index.encode(entries)])


def write_segment_index(folder: Folder, prefix: str, placed: Iterable[FoundRecord]) -> None:
    """Write the index of a whole segment."""
    entries = (encode_entry(IndexedRecord.of(one)) for one in placed)
    folder.replace(segment_index_name(prefix), chain([MAGIC], entries))


def _rebuild(folder: Folder, partition: int, prefix: str, max_record_bytes: int) -> Reindexed:
    walk = _Walk(folder, prefix, max_record_bytes)
    for _ in walk:
        pass
    if walk.damage is None or walk.damage.torn:
        # A damaged segment keeps its index, which is the second witness of its records.
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
    """Reads the complete records of a segment; keeps where they ended and why."""

    def __init__(self, folder: Folder, prefix: str, max_record_bytes: int) -> None:
        self._read = read_segment(folder, records_name(prefix), max_record_bytes=max_record_bytes)
        self.count = 0
        self.end = FIRST_POSITION
        self.damage: DamagedBackup | None = None

    def __iter__(self) -> Iterator[FoundRecord]:
        try:
            for placed in self._read:
                yield placed
                self.count += 1
                self.end = placed.end
        except DamagedBackup as damage:
            if damage.position < FIRST_POSITION:
                raise
            self.damage = damage
