"""Opens a partition of a topic backup, a checkpoint or a rescue as a source.

A manifest says how far each segment is to be read; without a manifest the indexes say it, and
without an index the segment itself. A rescue has every record, committed or not, and the state of
each batch, so it can be compared with a log and with what committed consumers read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from breakglass.services.checkpoint.spark.copied_files import segments_store
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.files import contents
from breakglass.services.checkpoint.store.stored import StoredPartition
from breakglass.services.divergence.address import SourceAddress
from breakglass.services.divergence.backup_source import READ_ERRORS, BackupSource, BackupTape
from breakglass.services.divergence.entry import NO_HEADERS, Item, RecordEntry, address
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.batches import ControlType, Marker
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import listing, records_name
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.reader import (
    PartitionReader,
    SegmentAt,
    SegmentExtent,
    pieces_of,
)
from breakglass.services.topic_backup.record import TimestampType
from breakglass.services.topic_backup.salvage.finding import FoundRecord
from breakglass.services.topic_backup.segment_index import open_index
from breakglass.services.topic_backup.summary import EpochStart, PartitionSummary


def open_backup(name: str, folder: Folder, partition: int) -> BackupSource:
    """The partition in *folder*, called *name*.

    A missing segment is an unreadable stretch.

    Raises:
        UsageError: the backup has nothing of the partition.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
        StorageError: the folder cannot be listed.
    """
    manifest = read_manifest(folder)
    committed = manifest.partition(partition) if manifest else None
    if committed is None and (manifest is not None or partition not in listing(folder.names())):
        raise UsageError(f"{folder.where()} holds nothing of partition {partition}.")
    reader = PartitionReader(folder, partition, committed)
    stretches = tuple(_stretch(folder, segment) for segment in reader.segments)
    epochs = _epochs(committed) if committed else ()
    extent = _extent(folder, stretches, committed, reader)
    gone = frozenset(segment.extent.prefix for segment in reader.segments if segment.missing)
    segments = {segment.extent.start_offset: segment for segment in reader.segments}
    left_out = tuple(reader.left_out)
    return BackupSource(
        name, folder, partition, stretches, extent, epochs, left_out, gone, segments
    )


def _stretch(folder: Folder, segment: SegmentAt) -> SegmentExtent:
    """How far a segment is to be read; without a manifest, to the end of its file."""
    extent = segment.extent
    if extent.end is not None or segment.missing:
        return replace(extent, end=extent.end or 0)
    return replace(extent, end=folder.size(records_name(extent.prefix)) or 0)


def _epochs(committed: PartitionSummary) -> tuple[EpochStart, ...]:
    """Where each epoch begins; empty if a segment's epochs are unknown.

    Otherwise the epoch before that segment would seem to cover it.
    """
    starts = [epoch for segment in committed.segments for epoch in segment.epochs]
    known = all(segment.epochs for segment in committed.segments if segment.count)
    return tuple(sorted(starts, key=lambda start: start.offset)) if known else ()


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
        firsts = [
            segment.first_offset
            for segment in committed.segments
            if segment.first_offset is not None
        ]
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
    """One past the last record that the manifest names or that a file has."""
    for segment in reversed(segments):
        end = segment.next_offset if segment.missing else _segment_end(folder, segment)
        if end is not None:
            return end
    return segments[0].extent.start_offset


def _segment_end(folder: Folder, segment: SegmentAt) -> int | None:
    """One past the last record of a segment.

    Taken from the index if its last entry ends where the records file does, else from the records.
    """
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


def open_checkpoint(address: SourceAddress) -> BackupSource:
    """The partition's copy in its checkpoint.

    Raises:
        UsageError: the checkpoint does not exist, or has no completed copy of the partition.
        StorageError, MalformedInput, UnsupportedSchema: the store cannot be read.
    """
    place, _, id = address.place.rpartition("/")
    found = BackupStore(place or "/").read(int(id))
    if found is None:
        raise UsageError(f"{place or '/'} holds no checkpoint {id}: check the address.")
    wanted = (address.folder, address.partition)
    for partition in found.partitions:
        if (
            partition.subject is not None
            and (partition.subject.topic, partition.subject.partition) == wanted
        ):
            return open_backup(
                str(address), _folder(place or "/", partition, address), address.partition
            )
    raise UsageError(f"checkpoint {id} is not of {address.topic_partition}: check the address.")


def _folder(place: str, held: StoredPartition, address: SourceAddress) -> Folder:
    """Where the copy's segments are: a topic backup that ends with the cut."""
    copy = held.counting
    if copy is None or copy.manifest is None:
        why = held.failure or f"it is {held.status}"
        raise UsageError(f"{address} holds no completed copy ({why}): name another checkpoint.")
    return segments_store(f"{place}/{contents(copy.id)}").folder(address.folder)


_MARKERS = {type_.name.lower(): type_ for type_ in ControlType}


@dataclass(frozen=True, slots=True)
class RescueSource:
    """A partition of a rescue."""

    source: BackupSource
    states: tuple[BatchState, ...]
    """The states of the batches, by offset."""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def extent(self) -> Extent:
        """The extent of the records and of the markers among them."""
        held = self.source.extent
        end = self.states[-1].last_offset + 1 if self.states else held.end
        return Extent(held.start, max(held.end, end))

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``, markers of transactions among them."""
        place = max(bisect_right(self.states, start, key=lambda state: state.base_offset) - 1, 0)
        states = iter(self.states[place:])
        state = next(states, None)
        for item in self.source.read(start, end, reading):
            while state is not None and state.last_offset < address(item):
                yield from _marker(state, start, end)
                state = next(states, None)
            yield _noted(item, state)
        while state is not None and state.base_offset < end:
            yield from _marker(state, start, end)
            state = next(states, None)

    def tape(self, start: int, end: int, reading: Reading) -> BackupTape | None:
        """The files as a tape; None if they have transactions, which the bytes do not show."""
        if any(state.transactional or state.marker is not None for state in self.states):
            return None
        return self.source.tape(start, end, reading)


def open_rescue(name: str, folder: Folder, partition: int) -> BackupSource | RescueSource:
    """The partition in *folder*: a rescue if batch states were saved with it, else a backup.

    Raises as `open_backup`.
    """
    source = open_backup(name, folder, partition)
    manifest = read_manifest(folder)
    held = manifest.partition(partition) if manifest else None
    if held is None or held.batch_log is None:
        return source
    return RescueSource(source, tuple(read_batch_log(folder, partition, held.batch_log)))


def _noted(item: Item, state: BatchState | None) -> Item:
    """A record with the transaction that its batch belongs to."""
    if not isinstance(item, RecordEntry) or state is None or item.offset < state.base_offset:
        return item
    return item._replace(producer_id=state.producer_id, transactional=state.transactional)


def _marker(state: BatchState, start: int, end: int) -> Iterator[RecordEntry]:
    """The marker that *state* describes; nothing for a batch of data."""
    if state.marker is None or not start <= state.base_offset < end:
        return
    kind = _MARKERS.get(state.marker, ControlType.UNKNOWN)
    yield RecordEntry(
        state.base_offset,
        state.leader_epoch if state.leader_epoch >= 0 else None,
        TimestampType.NONE,
        None,
        None,
        None,
        NO_HEADERS,
        Marker(kind, state.coordinator_epoch),
        state.producer_id,
        state.transactional,
    )
