"""Opens a partition of a backup as a source: which segments it has, how far, which are gone.

Of what a manifest committed, only what it says is read; without one, what indexes tell, and where
there are none, the segment itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from breakglass.services.divergence.backup_source import READ_ERRORS, BackupSource
from breakglass.services.divergence.source import Extent
from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.extent import SegmentExtent
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import listing, records_name
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.reader import PartitionReader, SegmentAt, pieces_of
from breakglass.services.topic_backup.salvage.finding import FoundRecord
from breakglass.services.topic_backup.segment_index import open_index
from breakglass.services.topic_backup.summary import EpochStart, PartitionSummary


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
    reader = PartitionReader(folder, partition, committed)
    stretches = tuple(_stretch(folder, one) for one in reader.segments)
    epochs = _epochs(committed) if committed else ()
    extent = _extent(folder, stretches, committed, reader)
    gone = frozenset(one.extent.prefix for one in reader.segments if one.missing)
    segments = {one.extent.start_offset: one for one in reader.segments}
    left_out = tuple(reader.left_out)
    return BackupSource(
        name, folder, partition, stretches, extent, epochs, left_out, gone, segments
    )


def _stretch(folder: Folder, segment: SegmentAt) -> SegmentExtent:
    """How far a segment is to be read; of one without a manifest that is there, its file."""
    extent = segment.extent
    if extent.end is not None or segment.missing:
        return replace(extent, end=extent.end or 0)
    return replace(extent, end=folder.size(records_name(extent.prefix)) or 0)


def _epochs(committed: PartitionSummary) -> tuple[EpochStart, ...]:
    """Where each epoch begins; what is not known leaves the one before standing for nothing."""
    starts = [one for segment in committed.segments for one in segment.epochs]
    known = all(one.epochs for one in committed.segments if one.count)
    return tuple(sorted(starts, key=lambda one: one.offset)) if known else ()


def _extent(
    folder: Folder,
    stretches: Sequence[SegmentExtent],
    committed: PartitionSummary | None,
    reader: PartitionReader,
) -> Extent:
    if not stretches:
        end = (committed.next_offset if committed else None) or 0
        return Extent(end, end)
    if committed is not None:
        firsts = [one.first_offset for one in committed.segments if one.first_offset is not None]
        start = firsts[0] if firsts else stretches[0].start_offset
        return Extent(start, max(start, committed.next_offset or 0))
    return Extent(_first(folder, stretches[0]), _end(folder, reader.segments))


def _first(folder: Folder, stretch: SegmentExtent) -> int:
    index = open_index(folder, stretch.prefix)
    if index is None:
        return stretch.start_offset
    with index:
        return index[0].offset if len(index) else stretch.start_offset


def _end(folder: Folder, segments: Sequence[SegmentAt]) -> int:
    """One past the last record that is named or there."""
    for segment in reversed(segments):
        end = segment.next_offset if segment.missing else _segment_end(folder, segment)
        if end is not None:
            return end
    return segments[0].extent.start_offset


def _segment_end(folder: Folder, segment: SegmentAt) -> int | None:
    """By an index whose last entry ends where the records do, else by reading the segment."""
    index = open_index(folder, segment.extent.prefix)
    if index is not None:
        with index:
            last, size = index.last, folder.size(records_name(segment.extent.prefix))
        if last is not None and last.end == size:
            return last.offset + 1
    end = None
    try:
        for piece in pieces_of(folder, segment):
            if isinstance(piece, FoundRecord):
                end = piece.placed.record.offset + 1
            elif piece.end_offset is not None:
                end = max(end or 0, piece.end_offset)
    except READ_ERRORS:
        pass
    return end
