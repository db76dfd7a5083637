"""Opens a partition of a backup as a source: which segments it has, how far, which are gone.

Of what a manifest committed, only what it says is read; without one, what indexes tell, and where
there are none, the segment itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.divergence.backup_source import READ_ERRORS, BackupSource
from services.divergence.source import Extent
from services.errors import UsageError
from services.topic_backup.extent import Extent as Stretch
from services.topic_backup.folder import Folder
from services.topic_backup.layout import listing, records_name
from services.topic_backup.manifest import read_manifest
from services.topic_backup.reader import PartitionReader
from services.topic_backup.segment_index import open_index
from services.topic_backup.segment_reader import read_segment
from services.topic_backup.summary import EpochStart, PartitionSummary, SegmentSummary


def open_backup(name: str, folder: Folder, partition: int) -> BackupSource:
    """The partition in *folder*, called *name*.

    A segment that is gone is a stretch like the others, which cannot be read.

    Raises:
        UsageError: nothing is backed up of it.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
        StorageError: the folder cannot be listed.
    """
    manifest = read_manifest(folder)
    committed = manifest.partition(partition) if manifest else None
    if committed is None and (manifest is not None or partition not in listing(folder.names())):
        raise UsageError(f"{folder.where()} holds nothing of partition {partition}.")
    gone = _gone(folder, partition, committed) if committed else ()
    left = [one for one in committed.segments if one not in gone] if committed else ()
    held = replace(committed, segments=tuple(left)) if committed else None
    reader = PartitionReader(folder, partition, held)
    lost = [Stretch(one.prefix, one.start_offset, one.records_bytes) for one in gone]
    stretches = tuple(sorted([*reader.extents, *lost], key=lambda one: one.start_offset))
    epochs = _epochs(committed) if committed else ()
    extent = _extent(folder, stretches, committed)
    left_out = tuple(reader.left_out)
    prefixes = frozenset(one.prefix for one in gone)
    return BackupSource(name, folder, partition, stretches, extent, epochs, left_out, prefixes)


def _gone(
    folder: Folder, partition: int, committed: PartitionSummary
) -> tuple[SegmentSummary, ...]:
    """The segments that are missing behind the first that is there; before it they were pruned."""
    names = frozenset(folder.names())
    files = listing(names).get(partition)
    starts = {one.start_offset for one in files.segments if one.has_records} if files else set()
    there = [
        records_name(one.prefix) in names or ("/" not in one.prefix and one.start_offset in starts)
        for one in committed.segments
    ]
    first = there.index(True) if True in there else len(there)
    behind = zip(committed.segments[first:], there[first:], strict=True)
    return tuple(one for one, held in behind if not held)


def _epochs(committed: PartitionSummary) -> tuple[EpochStart, ...]:
    """Where each epoch begins; what is not known leaves the one before standing for nothing."""
    starts = [one for segment in committed.segments for one in segment.epochs]
    known = all(one.epochs for one in committed.segments if one.count)
    return tuple(sorted(starts, key=lambda one: one.offset)) if known else ()


def _extent(
    folder: Folder, stretches: Sequence[Stretch], committed: PartitionSummary | None
) -> Extent:
    if not stretches:
        end = (committed.next_offset if committed else None) or 0
        return Extent(end, end)
    if committed is not None:
        there = {one.prefix for one in stretches}
        held = [one for one in committed.segments if one.prefix in there]
        firsts = [one.first_offset for one in held if one.first_offset is not None]
        start = firsts[0] if firsts else stretches[0].start_offset
        return Extent(start, max(start, committed.next_offset or 0))
    return Extent(_first(folder, stretches[0]), _end(folder, stretches))


def _first(folder: Folder, stretch: Stretch) -> int:
    index = open_index(folder, stretch.prefix)
    if index is None:
        return stretch.start_offset
    with index:
        return index[0].offset if len(index) else stretch.start_offset


def _end(folder: Folder, stretches: Sequence[Stretch]) -> int:
    """One past the last record: by the last index there is, else by reading that segment."""
    for stretch in reversed(stretches):
        end = _stretch_end(folder, stretch)
        if end is not None:
            return end
    return stretches[0].start_offset


def _stretch_end(folder: Folder, stretch: Stretch) -> int | None:
    index = open_index(folder, stretch.prefix) if stretch.end is not None else None
    if index is not None:
        with index:
            held = index.count_within(stretch.end or 0)
            return index[held - 1].offset + 1 if held else None
    last = None
    try:
        for placed in read_segment(folder, records_name(stretch.prefix), end=stretch.end):
            last = placed.record.offset
    except READ_ERRORS:
        pass
    return None if last is None else last + 1
