"""Lets a snapshot reuse the previous snapshot's answers where their bytes are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from breakglass.services.kafka.cluster.partitions import Pages
from breakglass.services.kafka.cluster.topic_settings import SettingsAnswer
from breakglass.services.model import PartitionState, Reassignment, TopicPartition, Unknown

K = TypeVar("K")
V = TypeVar("V")


class Last(Generic[K, V]):
    """The last value that was made, and the key that it was made from."""

    def __init__(self) -> None:
        self._held: tuple[K, V] | None = None

    def of(self, key: K, make: Callable[[K], V]) -> V:
        """The value of *key*: the last value if the key is the same."""
        if self._held is None or self._held[0] != key:
            self._held = (key, make(key))
        return self._held[1]


class SnapshotMemory:
    """The answers to one question that is repeated; not for use by two threads."""

    def __init__(self) -> None:
        self.pages = Pages()
        self.topics: Last[tuple[tuple[PartitionState, ...]], tuple[str, ...]] = Last()
        """Those with offline partitions; a tuple within a tuple is compared as one value."""
        self.settings: Last[tuple[str, ...], SettingsAnswer] = Last()
        self.moving: Last[
            tuple[tuple[PartitionState, ...], dict[TopicPartition, Reassignment] | Unknown],
            tuple[PartitionState, ...],
        ] = Last()
