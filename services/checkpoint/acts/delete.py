"""Deletes checkpoints: a deleted checkpoint cannot be restored, and its id is never used again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore, Retention, expired
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.clock import now_ms
from breakglass.services.errors import Refused
from breakglass.services.guard.act import (
    Act,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
    announced,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import StepName
from breakglass.services.model import TopicPartition


@dataclass(frozen=True, slots=True)
class DeleteCheckpoint(Act[StoredCheckpoint | None]):
    """Delete checkpoint *id* of *store*, or the files that an interrupted deletion of it left."""

    doing: ClassVar[str] = "deleting a checkpoint"
    store: BackupStore
    id: int

    def freeze(self, front: Front) -> Frozen[StoredCheckpoint | None]:  # noqa: ARG002
        """What is deleted, and which checkpoints can be restored afterwards.

        Raises Refused: the store has no such checkpoint.
        """
        if self.store.is_deleted(self.id):
            facts = (("Checkpoint", f"{self.id} of {self.store.address}, deleted before"),)
            return Frozen(_journal_of(self.store, ()), (), facts)
        stored = self.store.all()
        found = next((checkpoint for checkpoint in stored if checkpoint.id == self.id), None)
        if found is None:
            raise Refused(
                f"{self.store.address} has no checkpoint {self.id}: "
                "`breakglass checkpoint list` shows those that it has."
            )
        others = [checkpoint for checkpoint in stored if checkpoint.id != self.id]
        return Frozen(
            _journal_of(self.store, (found,)),
            (ConsentPhrase(f"delete checkpoint {self.id} {found.state}"),),
            (
                ("Checkpoint", f"{self.id} of {self.store.address}"),
                ("State", found.state),
                ("After it", _left(others)),
            ),
            tuple(map(str, found.topic_partitions)),
            tuple(_remarks(found)),
            found,
        )

    def carry_out(
        self, front: Front, means: Means, frozen: Frozen[StoredCheckpoint | None]
    ) -> Ending:
        partitions = [] if frozen.plan is None else frozen.plan.topic_partitions
        items = {partition: {"checkpoint": self.id} for partition in partitions}
        with announced(
            means.journal, StepName.DELETE_CHECKPOINT, items, front.tell, store=self.store.address
        ):
            self.store.delete(self.id)
        for partition in partitions:
            front.tell(TargetOutcome(str(partition), TargetResult.DONE, "deleted"))
        return Ending(text=f"checkpoint {self.id} is deleted", value=[self.id])


@dataclass(frozen=True, slots=True)
class Expired:
    """Checkpoints that retention allows to delete."""

    going: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    """Deleted before, by a deletion that was interrupted and left files."""


@dataclass(frozen=True, slots=True)
class DeleteExpired(Act[Expired]):
    """Delete the checkpoints of *store* that exceed *limits*."""

    doing: ClassVar[str] = "deleting checkpoints"
    store: BackupStore
    limits: Retention

    def freeze(self, front: Front) -> Frozen[Expired]:  # noqa: ARG002
        stored = self.store.all()
        going = expired(stored, self.limits, now_ms())
        left = self.store.deleted_with_rest()
        asked = (ConsentPhrase(f"delete {len(going):,} checkpoints"),) if going else ()
        others = [checkpoint for checkpoint in stored if checkpoint.id not in going]
        return Frozen(
            _journal_of(self.store, stored),
            asked,
            (("Checkpoints", listed(going) or "none may go"), ("After it", _left(others))),
            tuple(map(str, going)),
            plan=Expired(going, left),
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[Expired]) -> Ending:
        deleted = frozen.plan
        for id in (*deleted.going, *deleted.left):
            items: Mapping[TopicPartition, Mapping[str, Any]] = {}
            with announced(
                means.journal,
                StepName.DELETE_CHECKPOINT,
                items,
                front.tell,
                store=self.store.address,
                checkpoint=id,
            ):
                self.store.delete(id)
            front.tell(TargetOutcome(str(id), TargetResult.DONE, "deleted"))
        return Ending(text=f"deleted: {listed(deleted.going)}", value=deleted)


def listed(ids: Sequence[int]) -> str:
    """The ids, separated by commas."""
    return ", ".join(map(str, ids))


def _journal_of(store: BackupStore, stored: Sequence[StoredCheckpoint]) -> str:
    """The cluster whose journals record the deletion; the store itself if none is known."""
    takes = (checkpoint.take for checkpoint in stored)
    clusters = (take.cluster_id for take in takes if take is not None and take.cluster_id)
    return next(clusters, f"store {store.address}")


def _left(others: Sequence[StoredCheckpoint]) -> str:
    whole = next((other.id for other in others if other.status is Status.COMPLETED), None)
    if whole is None:
        return "no checkpoint of this store can be restored"
    return f"checkpoint {whole} is the newest that can be restored"


def _remarks(found: StoredCheckpoint) -> Iterator[str]:
    sizes = [copy.counting.size or 0 for copy in found.partitions if copy.counting is not None]
    yield (
        f"{len(sizes):,} of {len(found.partitions):,} partitions are copied, {sum(sizes):,} bytes"
    )
    if found.status is Status.ONGOING:
        yield "a worker is copying it: the store refuses that worker from then on"
