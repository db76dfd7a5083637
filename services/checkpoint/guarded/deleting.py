"""Deleting a checkpoint under guard: nothing brings it back, and its id is never used again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from services.checkpoint.guarded.act import (
    Frozen,
    TargetOutcome,
    TargetResult,
    Tell,
    announced,
    journalled,
)
from services.checkpoint.guarded.steps import DELETE
from services.checkpoint.protocol.values import Status
from services.checkpoint.store.backup_store import BackupStore
from services.checkpoint.store.stored import StoredCheckpoint
from services.errors import Refused
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition

if TYPE_CHECKING:
    from services.kafka.read_client import ReadClient
    from services.session import Power

ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Deleting:
    """Checkpoint *id* of *store* goes."""

    store: BackupStore
    id: int
    state_folder: Path | None = None

    def freeze(self, client: ReadClient) -> Frozen:
        """What goes, and what can be restored after that.

        Raises:
            Refused: there is no such checkpoint any more.
        """
        held = self.store.all()
        found = next((one for one in held if one.id == self.id), None)
        if found is None:
            raise Refused(f"checkpoint {self.id} is gone already: nothing is to be done.")
        return Frozen(
            client.describe(Deadline.after(ASK_SECONDS)).cluster_id,
            f"delete checkpoint {self.id} {found.status}",
            (
                ("Checkpoint", f"{self.id} of {self.store.address}"),
                ("State", str(found.status)),
                ("After it", _left([one for one in held if one.id != self.id])),
            ),
            tuple(map(str, _partitions(found))),
            tuple(_remarks(found)),
            found,
        )

    def carry_out(self, power: Power, frozen: Frozen, tell: Tell) -> str:
        del power  # The store is changed, and no cluster.
        items = {one: {"checkpoint": self.id} for one in _partitions(frozen.plan)}
        with (
            journalled(frozen, self.state_folder, tell) as journal,
            announced(journal, DELETE, items, tell, store=self.store.address),
        ):
            self.store.delete(self.id)
        for one in items:
            tell(TargetOutcome(str(one), TargetResult.DONE, "deleted"))
        return f"checkpoint {self.id} is deleted"

    def follow(self, frozen: Frozen, tell: Tell) -> str:
        del frozen, tell
        return ""


def _partitions(found: StoredCheckpoint) -> Iterator[TopicPartition]:
    for one in found.partitions:
        if one.subject is not None:
            yield TopicPartition(one.subject.topic, one.subject.partition)


def _left(others: list[StoredCheckpoint]) -> str:
    whole = next((one.id for one in others if one.status is Status.COMPLETED), None)
    if whole is None:
        return "no checkpoint of this store can be restored"
    return f"checkpoint {whole} is the newest that can be restored"


def _remarks(found: StoredCheckpoint) -> Iterator[str]:
    done = [one.counting.size or 0 for one in found.partitions if one.counting is not None]
    yield f"{len(done):,} of {len(found.partitions):,} partitions are copied, {sum(done):,} bytes"
    if found.status is Status.ONGOING:
        yield "it is being copied: whoever copies it is refused from then on"
