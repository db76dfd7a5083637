"""Partitions as requests and answers carry them, and what of an answer cannot be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from breakglass.services.errors import MalformedMessage
from breakglass.services.model import TopicPartition

T = TypeVar("T")

NO_OFFSET = 2**62
"""No log reaches this offset; PAST_EVERY_LOG and what brokers may answer for it are above."""


def by_topic(
    partitions: Iterable[TopicPartition], build: Callable[[str, list[TopicPartition]], T]
) -> list[T]:
    """One ``build(topic, its partitions)`` for each topic, both in order."""
    ordered = sorted(partitions, key=attrgetter("topic", "partition"))
    return [build(topic, list(group)) for topic, group in groupby(ordered, attrgetter("topic"))]


def by_partition(
    told: Iterable[tuple[TopicPartition, T]], asked: Collection[TopicPartition], broker: int
) -> dict[TopicPartition, T]:
    """What *broker* says of each partition that was asked for.

    Raises:
        MalformedMessage: it answers for a partition twice, or of one that was not asked for.
    """
    found: dict[TopicPartition, T] = {}
    wanted = asked if isinstance(asked, set | frozenset | dict) else set(asked)
    for partition, value in told:
        if partition in found or partition not in wanted:
            what = "twice for" if partition in found else "for the unasked"
            raise unbelievable(f"b{broker}", f"answers {what} {partition}")
        found[partition] = value
    return found


def only(told: Sequence[T], who: str) -> T:
    """The one entry of an answer about one thing. Raises MalformedMessage if it has not one."""
    if len(told) != 1:
        raise unbelievable(who, f"answers with {len(told)} entries for one")
    return told[0]


def unbelievable(who: str, does: str) -> MalformedMessage:
    """The error for an answer that no broker gives."""
    return MalformedMessage(f"{who} {does}, which no broker does: check what runs at its address")
