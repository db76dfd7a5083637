"""How much of a checkpoint is copied, and of copies under way how far they are by their files.

A copy under way grows in its store: an index has as many entries as records are written. So
whoever reads the store sees how far it is, and the worker has nothing to tell. On object stores a
file is there once it is whole. What a task wrote that is tried again counts until it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition
from breakglass.services.errors import StorageError
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
"""What is copied as far as the cut, below a copy's contents."""
NOT_COPIED = Unknown("it is not copied yet")
FAILED = Unknown("it has failed")


@dataclass(frozen=True, slots=True)
class SoFar:
    """How far the copy of one partition is."""

    records: int
    bytes: int
    """Of the records' files."""
    offsets: int | None
    """As far as the cut, from the first one that is copied: it has so many records at most. None:
    it is not known yet where the copy begins or ends."""

    @property
    def bytes_expected(self) -> int | None:
        """About: as many for each offset as so far."""
        if self.offsets is None or not self.records:
            return None
        return max(self.bytes, self.bytes * self.offsets // self.records)


def so_far(store: BackupStore, found: StoredCheckpoint) -> dict[int, SoFar]:
    """How far each partition is that is being copied, by its number.

    Raises:
        StorageError: the store does not answer.
    """
    parts = [one for one in found.partitions if one.status is Status.ONGOING and one.counting]
    with ThreadPoolExecutor(SIDE_BY_SIDE, "so-far") as pool:
        looked = pool.map(lambda one: _of_partition(store, found, one), parts)
        return {part.number: one for part, one in zip(parts, looked, strict=True)}


def sizes(found: StoredCheckpoint) -> Iterator[int | Unknown]:
    """Bytes of each partition's completed copy."""
    for one in found.partitions:
        size = None if one.counting is None else one.counting.size
        unknown = FAILED if one.status is Status.FAILED else NOT_COPIED
        yield unknown if size is None else size


def whole_size(found: StoredCheckpoint) -> int | None:
    """Bytes of all its partitions; None while that of any is not known."""
    known = [one for one in sizes(found) if isinstance(one, int)]
    return sum(known) if known and len(known) == len(found.partitions) else None


def _of_partition(store: BackupStore, found: StoredCheckpoint, part: StoredPartition) -> SoFar:
    assert part.counting is not None
    position = None if found.cut is None else found.cut.positions.get(part.number)
    return read_so_far(store.copies.contents(part.counting.id), position)


def read_so_far(held: Blobs, position: int | None) -> SoFar:
    """How far the copy in *held* is, which ends with the cut at *position*, exclusive."""
    written = _written(held.names())
    records = {name: held.size(name) or 0 for name in written["records"]}
    indexes = {name: held.size(name) or 0 for name in written["index"]}
    first = _first_offset(held, (name for name, size in indexes.items() if _entries(size)))
    return SoFar(
        sum(_entries(size) for size in indexes.values()),
        sum(records.values()),
        None if position is None or first is None else max(position - first, 0),
    )


def _entries(size: int) -> int:
    """Whole entries in an index of so many bytes; the last one may be under way."""
    return max(size - FIRST_POSITION, 0) // ENTRY.size


def _written(names: Iterable[str]) -> Mapping[str, list[str]]:
    """The files with records, and the indexes: in their places, or as a task has written them."""
    found: dict[str, list[str]] = {"records": [], "index": []}
    before, after = TEMPORARY
    for name in names:
        own = name.rpartition("/")[2]
        segment = segment_of(own)
        kind = segment[2] if segment else ""
        if own.startswith(before) and own.endswith(after):
            kind = own.removesuffix(after).rpartition("-")[2]
        if name.startswith(SEGMENTS) and kind in found:
            found[kind].append(name)
    return found


def _first_offset(held: Blobs, indexes: Iterable[str]) -> int | None:
    """The lowest offset that was written; None where there is none yet."""
    placed: dict[str, int] = {}
    loose = []
    for name in indexes:
        segment = segment_of(name.rpartition("/")[2])
        if segment is None:
            loose.append(name)
        else:
            placed[name] = segment[1]
    # Of those in their places the lowest one does: their names have the order.
    lowest = [min(placed, key=lambda one: placed[one])] if placed else []
    found = [_offset_of(held, name) for name in lowest + loose]
    return min((one for one in found if one is not None), default=None)


def _offset_of(held: Blobs, index: str) -> int | None:
    """The offset of its first entry; None where it has got its place, and name, meanwhile."""
    try:
        with held.open(index) as file:
            file.seek(FIRST_POSITION)
            content = file.read(ENTRY.size)
    except StorageError:
        return None
    return int(ENTRY.unpack(content)[0]) if len(content) == ENTRY.size else None
