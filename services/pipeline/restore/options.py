"""The options and the plan of a restore of topics, and the settings of the target while it runs."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breakglass.services.pipeline.restore.task import Spans
    from breakglass.services.pipeline.stored_segments import StoredSegment
    from breakglass.services.topic_backup.catalog import HeldTopic
    from breakglass.services.topic_backup.group_history import GroupsByPartition
    from breakglass.services.topic_backup.summary import SegmentSummary


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of a restore."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New name by old name; other topics keep their name."""
    partitions: Collection[int] = ()
    """The partitions to restore; empty: all."""
    generation: int | None = None
    """The generation to restore; None: the newest, if no older one reaches the limits."""
    until_offset: int | None = None
    """Leave out records from this offset on."""
    until_ms: int | None = None
    """In each partition, leave out everything from the first record with a later timestamp on."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Topic settings that override the saved settings; an empty value removes a setting."""
    groups: bool = False
    groups_at_ms: int | None = None
    """The time whose offsets are restored; by default the newest."""
    into_existing: bool = False
    """The target may already have records."""
    accepted_gaps: Collection[str] = ()
    """Offsets that are lost in the backup, as a refusal names them."""
    compacted: bool = False
    """Restore the latest value of each key alone."""
    resume: bool = False


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    """The settings of a restore."""

    master: str = "local[*,4]"
    records_a_transaction: int = 500_000
    transactional: bool = True
    verify: bool = True
    """Compare every record afterwards."""
    replication_factor: int = -1
    """The replication factor of new topics; -1: the brokers' default."""


NEVER = str(2**63 - 1)
OPEN: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": NEVER,
    "message.timestamp.after.max.ms": NEVER,
    "max.message.bytes": str(2**31 - 1),
}
"""Settings during a restore: no record is removed, and every timestamp and size is accepted (B7,
B8).

A stored record may be larger than the topic now allows."""
REMOVED_IN_4 = ("message.format.version", "message.timestamp.difference.max.ms")
"""Settings of older clusters that newer clusters refuse."""
DEFAULT_RETENTION_MS = 7 * 24 * 3600 * 1000
"""The default of brokers."""


def during(saved: Mapping[str, str]) -> dict[str, str]:
    """The settings with which the topic is created."""
    kept = {name: value for name, value in saved.items() if name not in REMOVED_IN_4}
    return {**kept, **OPEN}


def afterwards(saved: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings to restore, and the settings to reset to the broker's defaults."""
    back = {name: value for name, value in saved.items() if name in OPEN}
    return back, [name for name in OPEN if name not in saved]


def expired_at_once(
    saved: Mapping[str, str], segments: Sequence[SegmentSummary], now_ms: int
) -> int:
    """About how many records the broker removes once the saved settings apply again.

    Estimated by age and total size from the oldest segment on, as brokers do, but with the segments
    of the backup: those of the topic may have other boundaries.
    """
    if "delete" not in saved.get("cleanup.policy", "delete"):
        return 0
    retention = int(saved.get("retention.ms", DEFAULT_RETENTION_MS))
    oldest = now_ms - retention if retention >= 0 else None
    room = int(saved.get("retention.bytes", -1))
    left = sum(segment.records_bytes for segment in segments)
    gone = 0
    for segment in segments:
        old = (
            oldest is not None
            and segment.max_timestamp is not None
            and segment.max_timestamp < oldest
        )
        if not old and not 0 <= room <= left - segment.records_bytes:
            break
        gone += segment.count
        left -= segment.records_bytes
    return gone


BELOW = "below the log's start, which retention or DeleteRecords moved past them"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The plan for one partition."""

    partition: int
    start: int
    end: int
    """Stored offsets ``[start, end)``."""
    records: int
    bytes: int
    spans: Spans


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The plan for one topic."""

    held: HeldTopic
    source: str
    """The folder of its backup."""
    generation: int
    topic: str
    target: str
    exists: bool
    topic_id: str | None
    """The id of the existing target."""
    empty: bool
    """Whether the restore is the only writer of the target."""
    partition_count: int
    settings: Mapping[str, str]
    partitions: tuple[PartitionPlan, ...]
    expired_at_once: int
    """About how many records the broker removes as soon as these settings apply."""
    groups: GroupsByPartition
    """The committed offsets of groups to restore, by partition."""
    state_folder: str
    resumed: bool
    tail_of: str = ""
    """The replica or folder whose tail is restored; empty if the plan is not for a tail."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Records that are left out, by reason: of a tail, or of a restore of the latest values."""
    stored: Mapping[int, Sequence[StoredSegment]] = field(default_factory=dict)
    """The segments of each partition."""
    gaps: Sequence[str] = ()
    """Offsets that are lost in the backup: ``orders-0 36..99``."""
    lost: Sequence[str] = ()
    """Offsets that were lost before the backup could copy them: ``orders-0 36..99``."""
    groups_lacking: Sequence[str] = ()
    """What the saved offsets lack of groups, each in a sentence."""
    more_partitions: int = 0
    """How many partitions the existing target has that the backed-up topic had not."""
    salvaged: bool = False
    """Records were salvaged from damage, or taken from files that nothing vouched for."""
    vouched: bool = True
    """Whether a manifest has the hashes of the records."""
    compacted: bool = False
    """The tail is added after newer records of a compacted topic: the last value of a key stays."""
    unexplained: int = 0
    """Offsets of the topic that are missing for a reason that no run could find out."""
    others: Sequence[str] = ()
    """The generations that are not restored, each with what it has."""
    before_all: str = ""
    """Why the limits leave nothing of a backup that has records; empty if they do not."""
    uncommitted: Sequence[str] = ()
    """Bytes that are in the folder and in no commit: a killed run's, or of a newer manifest."""

    def document(self) -> dict[str, object]:
        names = {field.name for field in fields(self)} - {"held", "stored"}
        return {name: getattr(self, name) for name in sorted({*names, "elsewhere"})}

    @property
    def nothing(self) -> bool:
        """Whether the topic already has the whole tail, so that nothing is restored."""
        return bool(self.tail_of) and not self.records and not self.resumed

    @property
    def elsewhere(self) -> str:
        """The command that gives back what a tail leaves out; empty if nothing is lacking (B34)."""
        if not self.left_out.get(BELOW):
            return ""
        words = ("--store", self.held.store.where(), "--topics", self.topic)
        target = f"{self.topic}={self.topic}-rescued"
        return shlex.join(("breakglass", "backup", "restore", *words, "--map", target))

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The plan of a whole restore."""

    cluster_id: str
    topics: tuple[TopicPlan, ...]
    notes: tuple[str, ...] = ()
    """What to know before the consent: saved topics of Kafka's own, groups past the end."""

    def document(self) -> dict[str, object]:
        return {
            "cluster_id": self.cluster_id,
            "topics": [topic.document() for topic in self.topics],
            "notes": self.notes,
        }

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)

    @property
    def source(self) -> str:
        """A digest of the bytes, settings and offsets that are restored."""
        read = [
            (
                (topic.source, sorted(topic.settings.items()), topic.groups, partition.partition),
                (partition.spans, [one.sha256 for one in topic.stored[partition.partition]]),
            )
            for topic in self.topics
            for partition in topic.partitions
        ]
        return sha256(repr(read).encode()).hexdigest()

    @property
    def phrase(self) -> str:
        """The phrase to type: ``restore 1,000 records into orders``."""
        targets = list(dict.fromkeys(topic.target for topic in self.topics))
        into = targets[0] if len(targets) == 1 else f"{len(targets):,} topics"
        return f"restore {self.records:,} records into {into}"


def partition_plan(number: int, stored: Sequence[StoredSegment], spans: Spans) -> PartitionPlan:
    """The plan to restore *spans* of the *stored* segments."""
    from breakglass.services.pipeline.restore.task import runs_within

    records = size = 0
    for run in runs_within(stored, spans):
        records += len(run.offsets)
        size += len(run.data)
    return PartitionPlan(
        partition=number,
        start=spans[0][0] if spans else 0,
        end=spans[-1][1] if spans else 0,
        records=records,
        bytes=size,
        spans=spans,
    )
