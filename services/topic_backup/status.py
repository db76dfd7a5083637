"""Reports each backed-up topic and partition: content, age and last verification."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from uuid import UUID

from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.catalog import HeldTopic, held_topics, newest
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.folder_contents import FoundFiles, found_files, missing_of
from breakglass.services.topic_backup.layout import folder_name
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.notes import Verified, changed_since, read_verified
from breakglass.services.topic_backup.store.store import Store
from breakglass.services.topic_backup.summary import EXPECTED, PartitionSummary, added
from breakglass.services.topic_backup.verification import lacks_last, uncommitted


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition."""

    partition: int
    first_offset: int | None
    last_offset: int | None
    next_offset: int | None
    """All lower offsets are backed up or accounted for."""
    records: int
    bytes: int
    segments: int
    damage: tuple[str, ...]
    """Segments that are missing or too short, with offsets; only `verify` finds changed bytes."""
    gaps: dict[str, int]
    unproved: tuple[str, ...] = ()
    """What was taken from files that nothing vouched for."""
    lost_offsets: tuple[str, ...] = ()
    """Offsets that were removed before they were copied, as far as they are listed: ``36..99``."""

    @property
    def lost(self) -> int:
        """Offsets that are missing for an unexpected reason."""
        return sum(count for reason, count in self.gaps.items() if reason not in EXPECTED)


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One folder of a topic."""

    topic: str
    generation: int
    folder: str
    commit: int | None
    """None: a backup of Kafka Backup, of which `found` has what its files say."""
    committed_at_ms: int | None
    verified: Verified | None
    partitions: tuple[PartitionStatus, ...]
    group_states: int
    """How many states of consumer groups' offsets can be restored."""
    groups_lacking: tuple[str, ...] = ()
    """What is damaged or missing of groups' offsets, each in a sentence."""
    groups_lost: tuple[str, ...] = ()
    """Which offsets of groups were lost, as a later run noted, in a sentence."""
    cluster_id: str | None = None
    topic_id: UUID | None = None
    """The backed-up topic's id; None if it was not recorded."""
    lost_manifest: bool = False
    """Whether side files show that a manifest existed, although it is missing or an older one."""
    uncommitted: tuple[str, ...] = ()
    """Bytes that are in the folder and in no commit; only in a local folder."""
    changed: bool = False
    """Whether files changed since the last verification."""
    found_as: str = ""
    """The folder's name in the listing."""
    newest: bool = True
    """Whether no later generation of the topic is there."""
    found: FoundFiles | None = None
    """What the files say without a manifest; None with a manifest."""

    @property
    def name(self) -> str:
        """The folder's name: ``orders``, ``orders~2``."""
        return self.found_as or folder_name(self.topic, self.generation)

    @property
    def passed_over(self) -> bool:
        """Whether Kafka Backup ignores the folder: it reads only the folder named as the topic."""
        return self.name != self.topic

    @property
    def damaged(self) -> bool:
        """Whether files are missing or too short, or the last verification found damage."""
        if self.lost_manifest or (self.verified is not None and not self.verified.whole):
            return True
        found = self.found.partitions if self.found else ()
        damages = [part.damage for part in self.partitions] + [part.damage for part in found]
        return any(damages)

    @property
    def salvaged(self) -> bool:
        """Whether it has records that were taken from files that nothing vouched for."""
        return any(part.unproved for part in self.partitions)

    @property
    def verified_now(self) -> bool:
        """Whether the last commit was verified as intact and its files are unchanged since."""
        held = self.verified
        whole = held is not None and held.whole and held.commit == self.commit
        sound = not (self.changed or self.damaged or self.salvaged or self.groups_lacking)
        return whole and sound


def read_status(store: Store, topics: Collection[str] = ()) -> list[TopicStatus]:
    """The status of every generation of *topics*, or of all topics if empty.

    Raises:
        UsageError: the folder or a topic does not exist.
        MalformedInput, UnsupportedSchema: a manifest cannot be read.
    """
    held = held_topics(store, topics)
    last = newest(held)
    return [replace(topic_status(topic), newest=topic in last) for topic in held]


def topic_status(held: HeldTopic) -> TopicStatus:
    """The status of one folder.

    Raises:
        MalformedInput, UnsupportedSchema: its manifest cannot be read.
        StorageError: it cannot be listed.
    """
    folder = held.folder
    manifest = read_manifest(folder)
    names = folder.names()
    last = read_verified(folder)
    group_states, groups_lacking, groups_lost = group_history.outline(folder)
    parts = manifest.partitions if manifest else ()
    return TopicStatus(
        topic=held.topic,
        generation=held.generation,
        folder=held.where,
        commit=manifest.commit if manifest else None,
        committed_at_ms=manifest.committed_at_ms if manifest else None,
        verified=last,
        partitions=tuple(_partition(folder, part, set(names)) for part in parts),
        group_states=group_states,
        groups_lacking=groups_lacking,
        groups_lost=groups_lost,
        cluster_id=manifest.identity.cluster_id if manifest else None,
        topic_id=manifest.identity.topic_id if manifest else None,
        lost_manifest=lacks_last(folder, manifest),
        uncommitted=tuple(map(str, uncommitted(folder, names, manifest)))
        if manifest is not None and isinstance(folder, LocalFolder)
        else (),
        changed=last is not None and changed_since(folder, last),
        found_as=held.name,
        found=found_files(folder, names) if manifest is None and folder.original else None,
    )


def _partition(folder: Folder, held: PartitionSummary, names: Collection[str]) -> PartitionStatus:
    lost = missing_of(names, folder, held, sizes=isinstance(folder, LocalFolder))
    wrong = {one.prefix for one in lost}
    kept = [segment for segment in held.segments if segment.prefix not in wrong]
    return PartitionStatus(
        partition=held.partition,
        first_offset=held.first_offset,
        last_offset=held.records_end - 1 if held.first_offset is not None else None,
        next_offset=held.next_offset,
        records=sum(summary.count for summary in kept),
        bytes=sum(summary.records_bytes for summary in kept),
        segments=len(kept),
        damage=tuple(str(one.what) for one in lost),
        gaps=added(*(segment.missing for segment in held.segments)),
        unproved=tuple(map(str, held.unproved)),
        lost_offsets=held.lost,
    )
