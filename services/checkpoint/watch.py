"""Reads stores of checkpoints repeatedly, for display; changes nothing.

The readers are imported on first use, so that a user without stores does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from breakglass.services.checkpoint.progress import SoFar
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition

SIDE_BY_SIDE = 4


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
class StoreLine:
    """A store in the list of everything."""

    seen: SeenStore


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


Line: TypeAlias = StoreLine | CheckpointLine | CheckpointPartitionLine
Key: TypeAlias = tuple[str, int, int]


def key_of(line: Line) -> Key:
    """A key that identifies the line, however its content changes."""
    match line:
        case StoreLine():
            return line.seen.url, 0, 0
        case CheckpointLine():
            return line.url, line.found.id, 0
        case CheckpointPartitionLine():
            return line.url, line.found.id, line.part.number


def lines(stores: Sequence[SeenStore], opened: frozenset[tuple[str, int]]) -> Iterator[Line]:
    """All stores and checkpoints, with the partitions of the *opened* checkpoints."""
    for store in stores:
        yield StoreLine(store)
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
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(SIDE_BY_SIDE, "checkpoints") as pool:
            return tuple(pool.map(self._seen, self.urls))

    def _seen(self, url: str) -> SeenStore:
        from breakglass.services.checkpoint.progress import so_far
        from breakglass.services.checkpoint.protocol.values import Status
        from breakglass.services.checkpoint.store.backup_store import BackupStore
        from breakglass.services.checkpoint.store_address import require_there

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
