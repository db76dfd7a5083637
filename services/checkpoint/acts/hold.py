"""Suspends the retention of topics for checkpoints by one act, and restores it by another.

A hold has the name of the request that reserved the checkpoint, so that another process finds out
from the store whether the checkpoint has ended: a restarted server, or `checkpoint finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.holding import RetentionHolder
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.guard.act import Act, ActStep, Ending, Front, Frozen, Means, announced
from breakglass.services.guard.steps import HOLD_RETENTION, RELEASE_RETENTION
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition

ENDED = (Status.COMPLETED, Status.FAILED)


def release_ended(
    store: BackupStore, held: Collection[str], release: Callable[[str], object]
) -> None:
    """Release the holds of checkpoints of *store* that are completed, failed or deleted.

    *held* are the requests that hold back the retention of a cluster's topics. Holds of other
    requests are left: another process, or another store, has use for them.

    Raises: as `RetentionHolder.release`; AlreadyRunning, StorageError.
    """
    for request in sorted(held):
        id = store.id_of(request)
        if id is None:
            continue
        found = store.read(id)
        if found is None or found.status in ENDED:
            release(request)


def suspend(
    front: Front,
    means: Means,
    holder: RetentionHolder,
    topics: Collection[str],
    items: Mapping[TopicPartition, Mapping[str, object]],
    /,
    **details: Any,
) -> None:
    """Suspend the retention of *topics*; *items* and *details* are for the journal."""
    request = holder.request
    with announced(means.journal, HOLD_RETENTION, items, front.tell, request_id=request, **details):
        holder.hold(topics)
    front.tell(ActStep(f"retention is suspended: {', '.join(topics)}"))


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
            suspend(front, means, holder, topics, {}, topics=topics)
        return Ending()


@dataclass(frozen=True, slots=True)
class ReleaseRetention(Act[None]):
    """Restore the retention of topics that was suspended in the name of *request*."""

    doing: ClassVar[str] = "releasing retention"
    control_topic: str
    request: str

    def freeze(self, front: Front) -> Frozen[None]:
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.COMMAND)).cluster_id
        return Frozen(cluster_id, (), (("Request", self.request),))

    def carry_out(self, front: Front, means: Means, frozen: Frozen[None]) -> Ending:
        """Restore the settings; the ending's value names the topics."""
        with (
            front.reading() as client,
            means.cluster.markers(frozen.cluster_id, holding=True) as markers,
        ):
            client.describe(Deadline.after(patience.COMMAND))
            holder = RetentionHolder(client, markers, self.control_topic, self.request)
            with announced(means.journal, RELEASE_RETENTION, {}, front.tell, held_for=self.request):
                released = holder.release()
        for topic in released:
            front.tell(ActStep(f"topic {topic} has its own retention again"))
        return Ending(value=released)
