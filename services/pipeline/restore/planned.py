"""A restore that was planned: topic by topic, partition by partition, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from services.pipeline.restore.groups import GroupsByPartition
from services.pipeline.restore.task import Spans, runs_within
from services.pipeline.stored_segments import StoredSegment, stored_segments
from services.topic_backup.catalog import HeldTopic
from services.topic_backup.held import read_held


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition."""

    partition: int
    start: int
    end: int
    """Stored offsets ``[start, end)``."""
    records: int
    bytes: int
    spans: Spans
    """Those of them that are restored."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic."""

    held: HeldTopic
    source: str
    """Its folder."""
    generation: int
    topic: str
    target: str
    exists: bool
    topic_id: str | None
    """Of the target that is there."""
    empty: bool
    """Nobody else has written into the target."""
    partition_count: int
    settings: Mapping[str, str]
    """Those that the topic has in the end."""
    partitions: tuple[PartitionPlan, ...]
    expired_at_once: int
    """About how many records these settings let the broker remove as soon as they are set."""
    groups: GroupsByPartition
    """Offsets that groups had committed, by partition; empty unless they are restored."""
    state_folder: str
    """Where it is kept how far the restore is."""
    resumed: bool
    tail_of: str = ""
    """The replica or folder whose tail it is; empty: it is no tail."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Records of a tail that are not put back, by reason."""
    stored: Mapping[int, Sequence[StoredSegment]] | None = None
    """The segments of each partition, where not all of one folder are restored."""
    gaps: Sequence[str] = ()
    """Offsets that should be in the backup and cannot be given back: ``orders-0 36..99``."""
    salvaged: bool = False
    """Records had to be found again among damage, or what a killed writer left."""

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        names = {one.name for one in fields(self)} - {"held", "stored"}
        return {name: getattr(self, name) for name in sorted(names)}

    @property
    def nothing(self) -> bool:
        """Whether all of a tail is there already, so that the topic is left as it is."""
        return bool(self.tail_of) and not self.records and not self.resumed

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.partitions)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """A whole restore."""

    cluster_id: str
    topics: tuple[TopicPlan, ...]

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {"cluster_id": self.cluster_id, "topics": [one.document() for one in self.topics]}

    @property
    def records(self) -> int:
        return sum(one.records for one in self.topics)

    @property
    def phrase(self) -> str:
        """What has to be typed: ``restore 1,000 records into orders``."""
        targets = list(dict.fromkeys(one.target for one in self.topics))
        into = targets[0] if len(targets) == 1 else f"{len(targets):,} topics"
        return f"restore {self.records:,} records into {into}"


def partition_plan(number: int, stored: Sequence[StoredSegment], spans: Spans) -> PartitionPlan:
    """What restoring *spans* of the *stored* segments comes to."""
    runs = list(runs_within(stored, spans))
    return PartitionPlan(
        partition=number,
        start=spans[0][0] if spans else 0,
        end=spans[-1][1] if spans else 0,
        records=sum(len(run.offsets) for run in runs),
        bytes=sum(len(run.data) for run in runs),
        spans=spans,
    )


def stored_of(plan: TopicPlan, number: int) -> list[StoredSegment]:
    """The stored segments of one partition of *plan*."""
    if plan.stored is not None:
        return list(plan.stored.get(number, ()))
    held = read_held(plan.held.folder, plan.topic)
    part = next((one for one in held.partitions if one.partition == number), None)
    return stored_segments(held.folder, part.segments) if part else []
