"""Holds retention back for the checkpoints of a server, and releases it when they have ended.

A hold has the name of the request that reserved the checkpoint, so that another process finds out
from the store whether the checkpoint has ended: a restarted server, or `checkpoint finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import TakeDocument

ENDED = (Status.COMPLETED, Status.FAILED)


@dataclass(frozen=True, slots=True)
class ServedHolds:
    """The holds of one server on one cluster."""

    store: BackupStore
    suspend: Callable[[str], object]
    """Suspends retention in the name of a request."""
    release: Callable[[str], object]
    """Releases the retention that a request holds back."""
    held: Callable[[], Collection[str]]
    """The requests that hold back the retention of the cluster's topics."""

    def hold(self, take: TakeDocument) -> None:
        """Suspend retention for a checkpoint that is reserved and not started yet.

        Raises: as `RetentionHolder.hold`; AlreadyRunning.
        """
        self.suspend(take.request)

    def release_ended(self) -> None:
        """Release the holds of checkpoints of the store that are completed, failed or deleted.

        Holds of other requests are left: another process, or another store, has use for them.

        Raises: as `RetentionHolder.release`; AlreadyRunning, StorageError.
        """
        for request in sorted(self.held()):
            id = self.store.id_of(request)
            if id is None:
                continue
            found = self.store.read(id)
            if found is None or found.status in ENDED:
                self.release(request)
