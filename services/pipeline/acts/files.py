"""Changes the files of a backup in place: removes old segments, rebuilds indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

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
from breakglass.services.topic_backup.address import IndexesAt, indexes_at
from breakglass.services.topic_backup.catalog import held_topics
from breakglass.services.topic_backup.prune import (
    Prunable,
    PruneLimits,
    prunable,
    prune,
    require_no_writer,
)
from breakglass.services.topic_backup.segment_index import Reindexed
from breakglass.services.topic_backup.store.blobs import Key

if TYPE_CHECKING:
    from breakglass.services.topic_backup.folder import Folder
    from breakglass.services.topic_backup.store.store import Store


Segments = Mapping[str, tuple[Prunable, ...]]
"""The segments to remove, by topic."""


@dataclass(frozen=True, slots=True)
class PruneBackup(Act[Segments]):
    """Remove the segments of the backup in *store* that *limits* allow to remove."""

    doing: ClassVar[str] = "removing segments from a backup"
    store: Store
    topics: tuple[str, ...]
    """Empty: every topic."""
    limits: PruneLimits

    def freeze(self, front: Front) -> Frozen[Segments]:  # noqa: ARG002
        topics = held_topics(self.store, self.topics)
        found = {topic.name: prunable(topic.folder, self.limits) for topic in topics}
        segments = [(topic, segment) for topic, some in found.items() for segment in some]
        records = sum(segment.records for _, segment in segments)
        names = sorted(f"{topic}/{segment.prefix}" for topic, segment in segments)
        partitions = {str(TopicPartition(topic, segment.partition)) for topic, segment in segments}
        phrase = f"delete {len(segments):,} segments with {records:,} records"
        return Frozen(
            f"store {self.store.where()}",
            (ConsentPhrase(phrase),) if segments else (),
            (("Segments", ", ".join(names) or "none can go"),),
            tuple(sorted(partitions)),
            tuple(_writing(topic.folder for topic in topics if found[topic.name])),
            plan=found,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[Segments]) -> Ending:
        """Remove the segments; the ending's value is the removed segments, by topic."""
        removed: dict[str, tuple[Prunable, ...]] = {}
        for topic in held_topics(self.store, self.topics):
            going = frozen.plan.get(topic.name, ())
            items = {
                TopicPartition(topic.name, partition): {
                    "segments": [one.prefix for one in going if one.partition == partition]
                }
                for partition in sorted({segment.partition for segment in going})
            }
            with announced(means.journal, StepName.PRUNE_BACKUP, items, front.tell):
                removed[topic.name] = prune(topic.folder, self.limits)
            for partition in items:
                front.tell(TargetOutcome(str(partition), TargetResult.DONE, "removed"))
        return Ending(value=removed)


def _writing(folders: Iterable[Folder]) -> Iterator[str]:
    """Why segments of *folders* cannot be removed now."""
    for folder in folders:
        try:
            require_no_writer(folder)
        except Refused as refusal:
            yield str(refusal)


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
        with announced(means.journal, StepName.REBUILD_INDEXES, items, front.tell):
            rebuilt: tuple[Reindexed, ...] = found.rebuild()
        for partition in items:
            front.tell(TargetOutcome(str(partition), TargetResult.DONE, "rebuilt"))
        return Ending(value=rebuilt)
