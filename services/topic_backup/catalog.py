"""Lists the topics in a backup location, each with its generations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup import pending
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import (
    folder_name,
    generations,
    is_folder_name,
    listing,
)
from breakglass.services.topic_backup.store.form import has_manifest
from breakglass.services.topic_backup.store.store import LocalStore, Store
from breakglass.services.topic_backup.verification import has_lost_manifest


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
        """The folder's full address."""
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


def _is_held(store: Store, name: str) -> bool:
    if not is_folder_name(name):
        return False
    names = store.names(name)
    if has_manifest(names) or has_lost_manifest(names):
        return True
    return bool(listing(names)) and not _began_empty(store, name)


def _began_empty(store: Store, name: str) -> bool:
    folder = store.folder(name)
    return isinstance(folder, LocalFolder) and pending.began_empty(folder)
