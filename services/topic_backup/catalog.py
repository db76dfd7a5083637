"""Lists the topics in a backup location, and chooses the generation that has a point in time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from breakglass.services.errors import BreakglassError, Refused, UsageError
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import (
    folder_name,
    generations,
    is_folder_name,
    listing,
)
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.notes import began_empty
from breakglass.services.topic_backup.store.form import has_manifest
from breakglass.services.topic_backup.store.store import LocalStore, Store
from breakglass.services.topic_backup.verification import has_lost_manifest
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
