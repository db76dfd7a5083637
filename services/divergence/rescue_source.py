"""What was rescued of one broker as a source: records, with what their batches were noted to be.

A rescue keeps every record, committed or not, and beside them the state of each batch. So it can
be held against a log, and against what committed consumers read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from breakglass.services.divergence.backup_opening import open_backup
from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.divergence.backup_tape import BackupTape
from breakglass.services.divergence.content import NO_HEADERS
from breakglass.services.divergence.entry import Item, RecordEntry, address
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.batches import ControlType, Marker
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.record import TimestampType

_MARKERS = {one.name.lower(): one for one in ControlType}


@dataclass(frozen=True, slots=True)
class RescueSource:
    """A partition of a rescue."""

    source: BackupSource
    states: tuple[BatchState, ...]
    """Of its batches, by offset."""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def extent(self) -> Extent:
        """That of its records and of the markers among them."""
        held = self.source.extent
        end = self.states[-1].last_offset + 1 if self.states else held.end
        return Extent(held.start, max(held.end, end))

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``, markers of transactions among them."""
        place = max(bisect_right(self.states, start, key=lambda one: one.base_offset) - 1, 0)
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
        """Its files, if nothing in them belongs to a transaction: that is not in their bytes."""
        if any(one.transactional or one.marker is not None for one in self.states):
            return None
        return self.source.tape(start, end, reading)


def open_rescue(name: str, folder: Folder, partition: int) -> BackupSource | RescueSource:
    """The partition in *folder*; without states where none were noted. Raises as `open_backup`."""
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
    """The end of a transaction; nothing for a batch of data."""
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
