"""Looks at stores of checkpoints again and again, copies under way included; changes nothing.

A copy under way grows in its store: its index has an entry for each record. So workers report
nothing. On object stores a file appears once it is complete. The output of a retried task counts
until it is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, StorageError
from breakglass.services.model import Unknown
from breakglass.services.topic_backup.folder import TEMPORARY
from breakglass.services.topic_backup.layout import segment_of
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.store.blobs import Blobs

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.backup_store import BackupStore

SIDE_BY_SIDE = 8
SEGMENTS = "segments/"
"""The records up to the cut, below a copy's content."""
NOT_COPIED = Unknown("it is not copied yet")
FAILED = Unknown("it has failed")


@dataclass(frozen=True, slots=True)
class SoFar:
    """The progress of one partition's copy."""

    records: int
    bytes: int
    """Size of the record files."""
    offsets: int | None
    """Offsets up to the cut, at least the number of records; None: start or end is unknown yet."""

    @property
    def bytes_expected(self) -> int | None:
        """An estimate: the average size of the records so far for each offset."""
        if self.offsets is None or not self.records:
            return None
        return max(self.bytes, self.bytes * self.offsets // self.records)


def so_far(store: BackupStore, found: StoredCheckpoint) -> dict[int, SoFar]:
    """The progress of each partition that is being copied, by its number.

    Raises StorageError: the store does not answer.
    """
    parts = [
        partition
        for partition in found.partitions
        if partition.status is Status.ONGOING and partition.counting
    ]
    positions = {} if found.cut is None else found.cut.positions

    def read(part: StoredPartition) -> SoFar:
        assert part.counting is not None
        return read_so_far(store.copies.contents(part.counting.id), positions.get(part.number))

    with ThreadPoolExecutor(SIDE_BY_SIDE, "so-far") as pool:
        return {part.number: one for part, one in zip(parts, pool.map(read, parts), strict=True)}


def sizes(found: StoredCheckpoint) -> Iterator[int | Unknown]:
    """The size of each partition's completed copy in bytes."""
    for partition in found.partitions:
        size = None if partition.counting is None else partition.counting.size
        unknown = FAILED if partition.status is Status.FAILED else NOT_COPIED
        yield unknown if size is None else size


def whole_size(found: StoredCheckpoint) -> int | None:
    """The size of all partitions in bytes; None while the size of a partition is unknown."""
    known = [size for size in sizes(found) if isinstance(size, int)]
    return sum(known) if known and len(known) == len(found.partitions) else None


def read_so_far(held: Blobs, position: int | None) -> SoFar:
    """The progress of the copy in *held*, which ends with the cut at *position*, exclusive."""
    # The record files and the indexes, under their final or a task's temporary names.
    records, written, first_of, loose = 0, 0, dict[str, int](), list[str]()
    before, after = TEMPORARY
    for name in held.names():
        own = name.rpartition("/")[2]
        segment = segment_of(own)
        kind = segment[2] if segment else ""
        if own.startswith(before) and own.endswith(after):
            kind = own.removesuffix(after).rpartition("-")[2]
        if name.startswith(SEGMENTS) and kind == "records":
            written += held.size(name) or 0
        elif name.startswith(SEGMENTS) and kind == "index":
            # The last entry may be incomplete.
            entries = max((held.size(name) or 0) - FIRST_POSITION, 0) // ENTRY.size
            records += entries
            if entries and segment is None:
                loose.append(name)
            elif entries and segment is not None:
                first_of[name] = segment[1]
    # Names of final files sort by offset, so the first index has the lowest offset.
    lowest = [min(first_of, key=lambda name: first_of[name])] if first_of else []
    offsets = [_offset_of(held, name) for name in lowest + loose]
    first = min((offset for offset in offsets if offset is not None), default=None)
    if position is None or first is None:
        return SoFar(records, written, None)
    return SoFar(records, written, max(position - first, 0))


def _offset_of(held: Blobs, index: str) -> int | None:
    """The offset of the first entry; None if the file was renamed to its final name since."""
    try:
        with held.open(index) as file:
            file.seek(FIRST_POSITION)
            content = file.read(ENTRY.size)
    except StorageError:
        return None
    return int(ENTRY.unpack(content)[0]) if len(content) == ENTRY.size else None


STORES_SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True)
class SeenStore:
    """One store as of the last read."""

    url: str
    held: tuple[StoredCheckpoint, ...] | Unknown
    """The newest first."""
    at_ms: int
    """The time of the last read, or of the last attempt if the store cannot be read now."""
    moving: Mapping[int, Mapping[int, SoFar]] = field(default_factory=dict)
    """The progress of copies under way, by checkpoint and partition number."""


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """A checkpoint in the list."""

    url: str
    found: StoredCheckpoint
    opened: bool


@dataclass(frozen=True, slots=True)
class CheckpointPartitionLine:
    """A partition of an expanded checkpoint."""

    url: str
    found: StoredCheckpoint
    part: StoredPartition
    far: SoFar | None = None
    """The progress of its copy under way."""


Line: TypeAlias = SeenStore | CheckpointLine | CheckpointPartitionLine
Key: TypeAlias = tuple[str, int, int]


def key_of(line: Line) -> Key:
    """A key that identifies the line, however its content changes."""
    match line:
        case SeenStore():
            return line.url, 0, 0
        case CheckpointLine():
            return line.url, line.found.id, 0
        case CheckpointPartitionLine():
            return line.url, line.found.id, line.part.number


def lines(stores: Sequence[SeenStore], opened: frozenset[tuple[str, int]]) -> Iterator[Line]:
    """All stores and checkpoints, with the partitions of the *opened* checkpoints."""
    for store in stores:
        yield store
        if isinstance(store.held, Unknown):
            continue
        for found in store.held:
            shown = (store.url, found.id) in opened
            yield CheckpointLine(store.url, found, shown)
            if shown:
                far = store.moving.get(found.id, {})
                for partition in found.partitions:
                    yield CheckpointPartitionLine(
                        store.url, found, partition, far.get(partition.number)
                    )


@dataclass(frozen=True, slots=True)
class CheckpointWatch:
    """Reads the stores at these addresses."""

    urls: tuple[str, ...] = ()
    clock: Callable[[], int] = now_ms
    """Milliseconds since the epoch."""

    def look(self) -> tuple[SeenStore, ...]:
        """The current content; a store that does not answer does not hide the others."""
        if not self.urls:
            return ()
        with ThreadPoolExecutor(STORES_SIDE_BY_SIDE, "checkpoints") as pool:
            return tuple(pool.map(self._seen, self.urls))

    def _seen(self, url: str) -> SeenStore:
        from breakglass.services.checkpoint.store.backup_store import BackupStore, require_there

        try:
            store = BackupStore(url)
            held = store.all()
            if not held:
                require_there(url)
            live = [
                checkpoint
                for checkpoint in held
                if checkpoint.status in (Status.ONGOING, Status.INCOMPLETE)
            ]
            moving = {checkpoint.id: so_far(store, checkpoint) for checkpoint in live}
            return SeenStore(url, held, self.clock(), moving)
        except BreakglassError as error:
            return SeenStore(url, Unknown(str(error)), self.clock())
