"""Lists the topics in a backup location, with content, age and last verification of each.

Chooses the generation of a topic that has a point in time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from breakglass.services.errors import BreakglassError, Refused, UsageError
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.folder_contents import FoundFiles, found_files, missing_of
from breakglass.services.topic_backup.layout import (
    folder_name,
    generations,
    is_folder_name,
    listing,
)
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.notes import (
    Verified,
    began_empty,
    changed_since,
    read_verified,
)
from breakglass.services.topic_backup.store.form import has_manifest
from breakglass.services.topic_backup.store.store import LocalStore, Store
from breakglass.services.topic_backup.summary import EXPECTED, PartitionSummary, added
from breakglass.services.topic_backup.verification import has_lost_manifest, lacks_last, uncommitted
from breakglass.services.words.moments import time_text

BEGUN = "begun_ms"
"""In a manifest's origin: when the first run of a later generation began."""


@dataclass(frozen=True, slots=True, order=True)
class HeldTopic:
    """One folder of a topic."""

    topic: str
    generation: int
    store: Store = field(compare=False)
    found_as: str = field(default="", compare=False)
    """The folder's name in the listing."""

    @property
    def name(self) -> str:
        """The folder's name: ``orders``, ``orders~2``."""
        return self.found_as or folder_name(self.topic, self.generation)

    @property
    def where(self) -> str:
        return self.store.where(self.name)

    @property
    def folder(self) -> Folder:
        """The folder. Raises UsageError if it is encrypted and there is no key."""
        return self.store.folder(self.name)


def held_topics(store: Store, topics: Collection[str] = ()) -> list[HeldTopic]:
    """Every generation of *topics*, or of all topics if empty, sorted by name and number.

    Raises:
        UsageError: the location does not exist, or a named topic has no backup.
        StorageError: the location cannot be listed.
    """
    if isinstance(store, LocalStore) and not store.path.is_dir():
        raise UsageError(f"{store.where()} is no folder: name the folder of a backup.")
    named = generations(name for name in store.folders() if _is_held(store, name))
    found = sorted(HeldTopic(topic, number, store, name) for name, (topic, number) in named.items())
    absent = sorted(set(topics) - {topic.topic for topic in found})
    if absent or not found:
        what = ", ".join(absent) or "any topic"
        raise UsageError(
            f"{store.where()} holds no backup of {what}: check the folder and the names."
        )
    return [topic for topic in found if not topics or topic.topic in topics]


def newest(held: Collection[HeldTopic]) -> list[HeldTopic]:
    """The latest generation of each topic, sorted by name."""
    last = {topic.topic: topic for topic in sorted(held)}
    return [last[topic] for topic in sorted(last)]


@dataclass(frozen=True, slots=True)
class GenerationReach:
    """What one generation of a topic has, as its manifest says."""

    topic: HeldTopic
    begun_ms: int | None = None
    """When its first run began: its log is the topic's from then on at the latest."""
    first_ms: int | None = None
    """The time of its first records."""
    last_ms: int | None = None
    """When its newest record was written, or its last run was, whichever is later."""
    ends: Mapping[int, int] | None = None
    """Where each partition ends; None without a manifest that can be read."""
    records: int = 0

    def __str__(self) -> str:
        if self.ends is None:
            return f"generation {self.topic.generation}, {self.topic.where}: unknown, no manifest"
        return (
            f"generation {self.topic.generation}, {self.topic.where}: {self.records:,} records, "
            f"the first of {time_text(self.first_ms)}, copied until {time_text(self.last_ms)}"
        )


def reach_of(topic: HeldTopic) -> GenerationReach:
    """What *topic* has; of a manifest that cannot be read, nothing is known."""
    try:
        manifest = read_manifest(topic.folder)
    except BreakglassError:
        manifest = None
    if manifest is None:
        return GenerationReach(topic)
    segments = [segment for part in manifest.partitions for segment in part.segments]
    firsts = [one.first_timestamp for one in segments if one.first_timestamp is not None]
    lasts = [one.max_timestamp for one in segments if one.max_timestamp is not None]
    begun = manifest.identity.origin.get(BEGUN, "")
    return GenerationReach(
        topic,
        int(begun) if begun.isdecimal() else None,
        min(firsts, default=None),
        max(manifest.committed_at_ms, *lasts, 0),
        {part.partition: part.next_offset or 0 for part in manifest.partitions},
        sum(segment.count for segment in segments),
    )


def chosen_generation(
    found: Sequence[GenerationReach],
    number: int | None = None,
    until_ms: int | None = None,
    until_offset: int | None = None,
) -> GenerationReach:
    """The generation to restore, of all those *found* of one topic, oldest first (B27).

    It is the one with that *number*, by default the newest.

    Raises:
        UsageError: there is none with that number.
        Refused: an older one may be what the topic was at that time, or at that offset.
    """
    *older, newest = found
    if number is not None:
        one = next((one for one in found if one.topic.generation == number), None)
        if one is None:
            there = ", ".join(str(one.topic.generation) for one in found)
            raise UsageError(f"{newest.topic.topic} has no generation {number}: it has {there}.")
        return one
    claims = [one for one in older if _may_have(one, newest, until_ms, until_offset)]
    if not claims:
        return newest
    then = [one for one in claims if until_ms is None or (one.begun_ms or 0) <= until_ms]
    raise Refused(
        f"{newest.topic.topic} was deleted, cut or copied again since, and an older generation "
        f"of it reaches that point: {'; '.join(map(str, (*claims, newest)))}. Choose with "
        f"--topics {newest.topic.topic} --generation {(then or claims)[-1].topic.generation}, or "
        f"--generation {newest.topic.generation}"
    )


def _may_have(
    one: GenerationReach, newest: GenerationReach, until_ms: int | None, until_offset: int | None
) -> bool:
    """Whether the topic may have been the log of *one* at a time, or goes to an offset there."""
    if until_offset is not None and (
        one.ends is None or max(one.ends.values(), default=0) >= until_offset
    ):
        return True
    if until_ms is None:
        return False
    if newest.begun_ms is not None:
        return until_ms < newest.begun_ms
    known = [at for at in (one.last_ms, newest.first_ms) if at is not None]
    return one.last_ms is None or until_ms < max(known)


def _is_held(store: Store, name: str) -> bool:
    if not is_folder_name(name):
        return False
    names = store.names(name)
    if has_manifest(names) or has_lost_manifest(names):
        return True
    folder = store.folder(name)
    empty = isinstance(folder, LocalFolder) and began_empty(folder)
    return bool(listing(names)) and not empty


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
