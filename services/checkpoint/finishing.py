"""Takes an acknowledged checkpoint to its end: decides what is in it, has every partition copied.

Whoever does this may die at any moment: another one decides the same, and the copies of this node
that did not get to their end are made anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from breakglass.services.checkpoint.abandoned import NEVER_ACKNOWLEDGED
from breakglass.services.checkpoint.copying import PartitionCopier, take_copy
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    ManifestDocument,
    StartedDocument,
    TakeDocument,
)
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import BreakglassError, Refused

SIDE_BY_SIDE = 4
"""Partitions that are copied at the same time: each waits for its disk now and then."""

Tell = Callable[[int, Status], None]


class Decides(Protocol):
    """Says what is in a checkpoint: see `kafka.deciding.Decider`."""

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument: ...

    def require_kept(self, take: TakeDocument) -> None:
        """Raise Refused where what was decided may have been compacted away since."""


class Sources(Protocol):
    """Where the content of partitions comes from."""

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, PartitionCopier]:
        """A source for each partition's number.

        Raises:
            BreakglassError: none can be had; the checkpoint has failed.
        """


def _nobody_else(_id: int) -> AbstractContextManager[None]:
    """Of a store that only one process has."""
    return nullcontext()


def _unheard(_number: int, _status: Status) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A source whose copy counts only where nothing was compacted away while it was made."""

    source: PartitionCopier
    require: Callable[[], None]

    def copy(self, where: str) -> ManifestDocument:
        found = self.source.copy(where)
        self.require()
        return found


@dataclass(frozen=True, slots=True)
class Finisher:
    """Finishes checkpoints of *store* as node *node*."""

    store: BackupStore
    decider: Decides
    sources: Sources
    node: int = 0
    tool_version: str = "unknown"
    side_by_side: int = SIDE_BY_SIDE
    wait: Callable[[float], None] = time.sleep
    alone: Callable[[int], AbstractContextManager[None]] = _nobody_else
    """Keeps other workers of the node from a checkpoint: see `alone.alone`."""

    def finish(self, id: int, tell: Tell = _unheard) -> StoredCheckpoint:
        """Decide and copy; *tell* is called for each partition's copy that has ended.

        Raises:
            AlreadyRunning: another worker of this node is at it.
            Refused: it has failed before, was deleted, or was never acknowledged, and has failed
                by that.
            StorageError: the store does not answer.
            BreakglassError: nobody can decide what is in it; it has failed.
        """
        if self._found(id).status is not Status.COMPLETED:
            with self.alone(id):
                self._finish(self._found(id), tell)
        return self._found(id, failed=True)

    def _finish(self, found: StoredCheckpoint, tell: Tell) -> None:
        assert found.take is not None
        assert found.started is not None
        if found.status is Status.COMPLETED:
            return
        try:
            cut = found.cut or self.store.decide(
                found.id, self.decider.decide(found.take, found.started)
            )
            sources = self.sources.open(found.take, cut)
        except BreakglassError as error:
            self.store.fail_checkpoint(found.id, str(error))
            raise
        self._copy(found.take, cut, sources, tell)

    def _found(self, id: int, *, failed: bool = False) -> StoredCheckpoint:
        found = self.store.read(id)
        if found is None or found.take is None:
            raise Refused(f"checkpoint {id} was deleted, or never asked for: take a new one.")
        if found.status is Status.FAILED and not failed:
            raise Refused(f"checkpoint {id} has failed: take a new one.")
        if found.started is None:
            self.store.fail_checkpoint(id, NEVER_ACKNOWLEDGED)
            raise Refused(
                f"checkpoint {id} was never acknowledged, and has failed by that: take a new one."
            )
        return found

    def _copy(
        self,
        take: TakeDocument,
        cut: CutDocument,
        sources: Mapping[int, PartitionCopier],
        tell: Tell,
    ) -> None:
        def one(number: int) -> None:
            copy = CopyId(take.id, number, self.node)
            position = cut.positions[number]
            status = take_copy(
                self.store.copies,
                copy,
                position,
                _Kept(sources[number], partial(self.decider.require_kept, take)),
                self.wait,
                self.tool_version,
            )
            tell(number, status)

        with ThreadPoolExecutor(self.side_by_side, "copy") as pool:
            list(pool.map(one, sorted(cut.positions)))


def unfinished(store: BackupStore, node: int) -> tuple[int, ...]:
    """Acknowledged checkpoints that this node has begun to copy and did not end, oldest first."""
    return tuple(
        one.id
        for one in reversed(store.all())
        if one.started is not None
        and one.status in (Status.ONGOING, Status.INCOMPLETE)
        and any(copy.id.node == node for part in one.partitions for copy in part.copies)
    )
