"""What a snapshot may take from the one before: answers that are told in the same bytes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from breakglass.services.kafka.cluster.partitions import Pages
from breakglass.services.kafka.cluster.topic_settings import SettingsAnswer
from breakglass.services.model import PartitionState, Reassignment, TopicPartition, Unknown

K = TypeVar("K")
V = TypeVar("V")


class Last(Generic[K, V]):
    """The last value that was made, and what it was made of."""

    def __init__(self) -> None:
        self._held: tuple[K, V] | None = None

    def of(self, key: K, make: Callable[[K], V]) -> V:
        """The value of *key*: the last one if that was the same."""
        if self._held is None or self._held[0] != key:
            self._held = (key, make(key))
        return self._held[1]


class SnapshotMemory:
    """Belongs to one question, asked again and again; not for use by two threads."""

    def __init__(self) -> None:
        self.pages = Pages()
        self.settings: Last[tuple[str, ...], SettingsAnswer] = Last()
        self.moving: Last[
            tuple[tuple[PartitionState, ...], dict[TopicPartition, Reassignment] | Unknown],
            tuple[PartitionState, ...],
        ] = Last()
