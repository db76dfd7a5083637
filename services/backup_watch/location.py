"""What a folder of backups holds, topic by topic: one that cannot be read hides no other.

What reads backups is imported when one is read: who watches none does not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from breakglass.services.errors import BreakglassError
from breakglass.services.topic_backup.layout import folder_name

if TYPE_CHECKING:
    from breakglass.services.topic_backup.catalog import HeldTopic
    from breakglass.services.topic_backup.status import PartitionStatus, TopicStatus


@dataclass(frozen=True)
class TopicHeld:
    """One generation of a topic, with its sums."""

    topic: str
    generation: int
    newest: bool
    """No later generation of the topic is there."""
    status: TopicStatus | None
    unread: str = ""
    """Why *status* is None."""

    @property
    def name(self) -> str:
        """As its folder is called: ``orders``, ``orders~2``."""
        return self.status.name if self.status else folder_name(self.topic, self.generation)

    @property
    def partitions(self) -> tuple[PartitionStatus, ...]:
        return self.status.partitions if self.status else ()

    @cached_property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @cached_property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.partitions)

    @cached_property
    def segments(self) -> int:
        return sum(one.segments for one in self.partitions)

    @cached_property
    def lost(self) -> int:
        return sum(one.lost for one in self.partitions)


@dataclass(frozen=True)
class LocationHeld:
    """Everything in one folder of backups."""

    topics: tuple[TopicHeld, ...]

    @cached_property
    def newest_ms(self) -> int | None:
        """When a topic was committed last; None where nothing was."""
        moments = (one.status.committed_at_ms for one in self.topics if one.status)
        return max((one for one in moments if one is not None), default=None)


def full_address(url: str) -> str:
    """*url* as every process writes it, whatever folder it is in.

    Raises:
        UsageError: it is no address of backups.
    """
    from breakglass.services.topic_backup.store.store import open_store

    return open_store(url).where()


def read_location(url: str) -> LocationHeld:
    """Look at every topic of the backups at *url*.

    Raises:
        UsageError: there is no such folder, or no backup in it.
        StorageError: it cannot be listed.
    """
    from breakglass.services.topic_backup.catalog import held_topics
    from breakglass.services.topic_backup.store.store import open_store

    held = held_topics(open_store(url))
    last = {one.topic: one.generation for one in sorted(held)}
    return LocationHeld(tuple(_topic(one, last[one.topic] == one.generation) for one in held))


def _topic(held: HeldTopic, newest: bool) -> TopicHeld:
    from breakglass.services.topic_backup.status import topic_status

    try:
        status = topic_status(held)
    except BreakglassError as error:
        return TopicHeld(held.topic, held.generation, newest, None, str(error))
    return TopicHeld(held.topic, held.generation, newest, status)
