"""Retention that a server of checkpoints holds back: suspended by an act, released at the end.

Holds retention back for the checkpoints of a server, and releases it when they have ended.

A hold has the name of the request that reserved the checkpoint, so that another process finds out
from the store whether the checkpoint has ended: a restarted server, or `checkpoint finish`.

Suspends the retention of topics for a checkpoint that a server takes.

`acts.take.ReleaseRetention` ends what this act begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.holding import RetentionHolder
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import TakeDocument
from breakglass.services.guard.act import Act, ActStep, Ending, Front, Frozen, Means, announced
from breakglass.services.guard.steps import HOLD_RETENTION
from breakglass.services.kafka.wire.deadline import Deadline

ENDED = (Status.COMPLETED, Status.FAILED)


@dataclass(frozen=True, slots=True)
class ServedHolds:
    """The holds of one server on one cluster."""

    store: BackupStore
    suspend: Callable[[str], object]
    release: Callable[[str], object]
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


@dataclass(frozen=True, slots=True)
class HoldRetention(Act[None]):
    """Keep all records of *topics* in the name of *request*, until that is released."""

    doing: ClassVar[str] = "suspending retention"
    topics: tuple[str, ...]
    control_topic: str
    request: str

    def freeze(self, front: Front) -> Frozen[None]:
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.COMMAND)).cluster_id
        evidence = (("Request", self.request), ("Topics", ", ".join(sorted(self.topics))))
        return Frozen(cluster_id, (), evidence, tuple(sorted(self.topics)))

    def carry_out(self, front: Front, means: Means, frozen: Frozen[None]) -> Ending:
        """Change the settings; return when the brokers have confirmed them."""
        topics = sorted(self.topics)
        with (
            front.reading() as client,
            means.cluster.markers(frozen.cluster_id, holding=True) as markers,
        ):
            client.describe(Deadline.after(patience.COMMAND))
            holder = RetentionHolder(client, markers, self.control_topic, self.request)
            details = {"request_id": self.request, "topics": topics}
            with announced(means.journal, HOLD_RETENTION, {}, front.tell, **details):
                holder.hold(topics)
        front.tell(ActStep(f"retention is suspended: {', '.join(topics)}"))
        return Ending()
