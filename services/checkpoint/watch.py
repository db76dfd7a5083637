"""Stores of checkpoints looked at again and again, for whoever shows them; nothing is changed.

What reads them is imported when one is read: who watches none does not wait for it.
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
    """One store as it was at the last look."""

    url: str
    held: tuple[StoredCheckpoint, ...] | Unknown
    """The newest first."""
    at_ms: int
    """When it was read; of one that cannot be read now, when that was tried."""
    moving: Mapping[int, Mapping[int, SoFar]] = field(default_factory=dict)
    """How far copies under way are, by checkpoint and partition's number."""


@dataclass(frozen=True, slots=True)
class StoreLine:
    """A store in a list of everything."""

    seen: SeenStore


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """A checkpoint in it."""

    url: str
    found: StoredCheckpoint
    opened: bool


@dataclass(frozen=True, slots=True)
class CheckpointPartitionLine:
    """A partition of an opened checkpoint."""

    url: str
    found: StoredCheckpoint
    part: StoredPartition
    far: SoFar | None = None
    """How far its copy is that is under way."""


Line: TypeAlias = StoreLine | CheckpointLine | CheckpointPartitionLine
Key: TypeAlias = tuple[str, int, int]


def key_of(line: Line) -> Key:
    """What tells a line from the others, whatever becomes of it."""
    match line:
        case StoreLine():
            return line.seen.url, 0, 0
        case CheckpointLine():
            return line.url, line.found.id, 0
        case CheckpointPartitionLine():
            return line.url, line.found.id, line.part.number


def lines(stores: Sequence[SeenStore], opened: frozenset[tuple[str, int]]) -> Iterator[Line]:
    """Everything there is, with the partitions of the *opened* checkpoints."""
    for store in stores:
        yield StoreLine(store)
        if isinstance(store.held, Unknown):
            continue
        for found in store.held:
            shown = (store.url, found.id) in opened
            yield CheckpointLine(store.url, found, shown)
            if shown:
                far = store.moving.get(found.id, {})
                for one in found.partitions:
                    yield CheckpointPartitionLine(store.url, found, one, far.get(one.number))


@dataclass(frozen=True, slots=True)
class CheckpointWatch:
    """Looks at the stores at these addresses."""

    urls: tuple[str, ...] = ()
    clock: Callable[[], int] = now_ms
    """Milliseconds since the epoch."""

    def look(self) -> tuple[SeenStore, ...]:
        """What is there now; a store that does not answer keeps no other from being seen."""
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
            live = [one for one in held if one.status in (Status.ONGOING, Status.INCOMPLETE)]
            moving = {one.id: so_far(store, one) for one in live}
            return SeenStore(url, held, self.clock(), moving)
        except BreakglassError as error:
            return SeenStore(url, Unknown(str(error)), self.clock())
