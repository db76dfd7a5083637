"""Rebuilds the indexes of a backup in place, from its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
from breakglass.services.guard.steps import REBUILD_INDEXES
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.address import IndexesAt, indexes_at
from breakglass.services.topic_backup.reindex import Reindexed
from breakglass.services.topic_backup.store.key import Key


@dataclass(frozen=True, slots=True)
class RebuildIndexes(Act[IndexesAt]):
    """Replace the indexes of the topic or the partition at *address*; records stay as they are."""

    doing: ClassVar[str] = "rebuilding indexes"
    address: str
    key: Key | None = None

    def freeze(self, front: Front) -> Frozen[IndexesAt]:  # noqa: ARG002
        found = indexes_at(self.address, self.key)
        segments = found.segments()
        number = sum(map(len, segments.values()))
        plural = "" if number == 1 else "es"
        names = {
            TopicPartition(found.topic, partition): ", ".join(held) or "no segment"
            for partition, held in segments.items()
        }
        return Frozen(
            f"backup {found.folder.where()}",
            (ConsentPhrase(f"rebuild {number:,} index{plural} of {found.topic}"),)
            if number
            else (),
            tuple((str(name), held) for name, held in names.items()),
            tuple(str(name) for name in names),
            plan=found,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[IndexesAt]) -> Ending:
        """Rebuild them; the ending's value is what each index covers."""
        found = frozen.plan
        items = {
            TopicPartition(found.topic, partition): {"segments": list(held)}
            for partition, held in found.segments().items()
        }
        with announced(means.journal, REBUILD_INDEXES, items, front.tell):
            rebuilt: tuple[Reindexed, ...] = found.rebuild()
        for partition in items:
            front.tell(TargetOutcome(str(partition), TargetResult.DONE, "rebuilt"))
        return Ending(value=rebuilt)
