"""Finishes an acknowledged checkpoint: decides what is in it, and has every partition copied.

A finisher may die at any moment: the next finisher decides the same, and copies again what this
node did not complete. Only its own request resumes a take that died before it was acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

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

ABANDONED_MS = 120_000
"""Longer than a live take needs to be acknowledged, with clock differences included."""
NEVER_ACKNOWLEDGED = "its coordinator was gone before it was acknowledged"


def abandoned(found: StoredCheckpoint, node: int, before_ms: int) -> bool:
    """Whether a checkpoint requested by *before_ms* will never be acknowledged.

    True only if no node other than *node*, the caller's own, has begun to copy it.
    """
    nodes = {copy.id.node for part in found.partitions for copy in part.copies}
    asked = found.created_at_ms
    waiting = found.started is None and found.status is not Status.FAILED
    return waiting and nodes <= {node} and asked is not None and asked <= before_ms


SIDE_BY_SIDE = 4
"""Partitions that are copied in parallel: each copy waits for its disk from time to time."""

Tell = Callable[[int, Status], None]


class Decides(Protocol):
    """Decides what is in a checkpoint: see `kafka.deciding.Decider`."""

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument: ...

    def require_kept(self, take: TakeDocument) -> None:
        """Raise Refused if records that were decided on may have been compacted away since."""


class Sources(Protocol):
    """Where the content of partitions comes from."""

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, PartitionCopier]:
        """A source for each partition's number.

        Raises:
            BreakglassError: there is no source; the checkpoint has failed.
        """


def _nobody_else(_id: int) -> AbstractContextManager[None]:
    """The lock of a store that a single process uses."""
    return nullcontext()


def _unheard(_number: int, _status: Status) -> None:
    """Ignore the report."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A source whose copy is valid only if nothing was compacted away while it was made."""

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
    """Called with 0 before each copy: what raises WorkStopped here ends the work cleanly."""
    alone: Callable[[int], AbstractContextManager[None]] = _nobody_else
    """Excludes other workers of the node from a checkpoint: see `node_lock.alone`."""

    def finish(self, id: int, tell: Tell = _unheard) -> StoredCheckpoint:
        """Decide and copy; *tell* is called for each partition's copy that has ended.

        Raises:
            AlreadyRunning: another worker of this node finishes it, here or on another machine.
            Refused: it has failed before, was deleted, or was never acknowledged (it is then
                recorded as failed).
            StorageError: the store does not answer.
            BreakglassError: its content cannot be decided; it is recorded as failed.
            WorkStopped: by `wait`; what is not copied yet can be resumed.
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
        # Another machine's checkpoint must not fail by what this one decides.
        copies = (copy for part in found.partitions for copy in part.copies)
        self.store.copies.require_own(copy for copy in copies if copy.id.node == self.node)
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
            self.wait(0)
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
    """Acknowledged checkpoints that this node began to copy and did not complete, oldest first."""
    return tuple(
        checkpoint.id
        for checkpoint in reversed(store.all())
        if checkpoint.started is not None
        and checkpoint.status in (Status.ONGOING, Status.INCOMPLETE)
        and any(copy.id.node == node for part in checkpoint.partitions for copy in part.copies)
    )
