"""How backups stand: what each topic and partition has, how old it is, when it was verified."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from breakglass.services.topic_backup import group_history, verified
from breakglass.services.topic_backup.catalog import HeldTopic, held_topics
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import folder_name
from breakglass.services.topic_backup.lost import missing_of
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.store.store import Store
from breakglass.services.topic_backup.summary import GapReason, PartitionSummary
from breakglass.services.topic_backup.verification import has_lost_manifest
from breakglass.services.topic_backup.verified import Verified

EXPECTED = frozenset({GapReason.COMPACTION, GapReason.CONTROL, GapReason.ABORTED})
"""Reasons for which no record is missing from a committed reader's view."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition."""

    partition: int
    first_offset: int | None
    last_offset: int | None
    next_offset: int | None
    """Everything before it is backed up or accounted for."""
    records: int
    bytes: int
    segments: int
    damage: tuple[str, ...]
    """Segments that are gone or too short, each with its offsets; whether bytes were changed is
    for `verify` to find."""
    gaps: dict[str, int]
    """Offsets without a record, by reason."""

    @property
    def lost(self) -> int:
        """Offsets that are missing and should not be."""
        return sum(count for reason, count in self.gaps.items() if reason not in EXPECTED)


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One folder of a topic."""

    topic: str
    generation: int
    folder: str
    commit: int | None
    """None: a backup of the original's, of which only files can be counted."""
    committed_at_ms: int | None
    verified: Verified | None
    partitions: tuple[PartitionStatus, ...]
    group_states: int
    """States of consumer groups' offsets that can be restored."""
    cluster_id: str | None = None
    topic_id: UUID | None = None
    """Of the topic that was backed up; None where nobody noted it."""
    lost_manifest: bool = False
    """Side files tell that there was a manifest, which is gone."""
    changed: bool = False
    """Files were changed since the last verification."""
    found_as: str = ""
    """The folder's name, where it was listed."""

    @property
    def name(self) -> str:
        """Of its folder: ``orders``, ``orders~2``."""
        return self.found_as or folder_name(self.topic, self.generation)

    @property
    def passed_over(self) -> bool:
        """Kafka Backup does not find it: it reads the folder of the topic's own name alone."""
        return self.name != self.topic

    @property
    def damaged(self) -> bool:
        """Whether files are gone or too short, or the last verification found damage."""
        found = self.verified is not None and not self.verified.whole
        return found or self.lost_manifest or any(one.damage for one in self.partitions)

    @property
    def verified_now(self) -> bool:
        """Whether the last commit was verified and found whole, and is still there as it was."""
        held = self.verified
        whole = held is not None and held.whole and held.commit == self.commit
        return whole and not self.changed and not self.damaged


def read_status(store: Store, topics: Collection[str] = ()) -> list[TopicStatus]:
    """The status of every generation of *topics*, of all when none is named.

    Raises:
        UsageError: there is no such folder or topic.
        MalformedInput, UnsupportedSchema: a manifest cannot be read.
    """
    return [topic_status(one) for one in held_topics(store, topics)]


def topic_status(held: HeldTopic) -> TopicStatus:
    """The status of one folder.

    Raises:
        MalformedInput, UnsupportedSchema: its manifest cannot be read.
        StorageError: it cannot be listed.
    """
    folder = held.folder
    manifest = read_manifest(folder)
    names = folder.names()
    last = verified.read(folder)
    parts = manifest.partitions if manifest else ()
    return TopicStatus(
        topic=held.topic,
        generation=held.generation,
        folder=held.where,
        commit=manifest.commit if manifest else None,
        committed_at_ms=manifest.committed_at_ms if manifest else None,
        verified=last,
        partitions=tuple(_partition(folder, one, set(names)) for one in parts),
        group_states=len(group_history.times(names)),
        cluster_id=manifest.identity.cluster_id if manifest else None,
        topic_id=manifest.identity.topic_id if manifest else None,
        lost_manifest=manifest is None and has_lost_manifest(names),
        changed=last is not None and verified.is_changed(folder, last),
        found_as=held.name,
    )


def _partition(folder: Folder, held: PartitionSummary, names: Collection[str]) -> PartitionStatus:
    lost = missing_of(names, folder, held, sizes=isinstance(folder, LocalFolder))
    wrong = {one.prefix for one in lost}
    kept = [one for one in held.segments if one.prefix not in wrong]
    gaps: dict[str, int] = {}
    for segment in held.segments:
        for reason, count in segment.missing.items():
            gaps[reason] = gaps.get(reason, 0) + count
    firsts = [one.first_offset for one in held.segments if one.first_offset is not None]
    lasts = [one.last_offset for one in held.segments if one.last_offset is not None]
    return PartitionStatus(
        partition=held.partition,
        first_offset=firsts[0] if firsts else None,
        last_offset=lasts[-1] if lasts else None,
        next_offset=held.next_offset,
        records=sum(one.count for one in kept),
        bytes=sum(one.records_bytes for one in kept),
        segments=len(kept),
        damage=tuple(str(one.what) for one in lost),
        gaps=gaps,
    )
