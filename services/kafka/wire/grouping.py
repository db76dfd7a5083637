"""Partitions as requests carry them: a list of topics, each with its partition numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from breakglass.services.model import TopicPartition

T = TypeVar("T")


def by_topic(
    partitions: Iterable[TopicPartition], build: Callable[[str, list[TopicPartition]], T]
) -> list[T]:
    """One ``build(topic, its partitions)`` for each topic, both in order."""
    ordered = sorted(partitions, key=attrgetter("topic", "partition"))
    return [build(topic, list(group)) for topic, group in groupby(ordered, attrgetter("topic"))]
