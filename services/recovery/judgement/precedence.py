"""Which partitions are recovered first: those that other partitions depend on (R17)."""

from __future__ import annotations

from breakglass.services.model import INTERNAL_TOPICS, TopicPartition

_PLACE = {topic: place for place, topic in enumerate(INTERNAL_TOPICS)}


def internal(partition: TopicPartition) -> bool:
    """Whether *partition* belongs to an internal topic: recovered first, never in bulk."""
    return partition.topic in _PLACE


def recovery_order(partition: TopicPartition) -> tuple[int, TopicPartition]:
    """Sort key: internal topics in the order they depend on each other, then by name."""
    return _PLACE.get(partition.topic, len(_PLACE)), partition
