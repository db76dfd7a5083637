"""Partitions as an operator writes them on a command line: ``orders-3``, or all of ``orders-*``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.snapshot import ClusterSnapshot

_PARTITION = re.compile(r"(?P<topic>.+)-(?P<number>\d{1,10}|\*)")
_BROKER = re.compile(r"b?(\d{1,10})")


def partitions_named(
    names: Iterable[str], known: Collection[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """The partitions of *names*, each once; ``orders-*`` stands for those of *known*.

    Raises UsageError: a name that is none, or a topic of which nothing is known.
    """
    found = (partition for name in names for partition in _named(name, known))
    return tuple(dict.fromkeys(found))


def leaders_named(
    texts: Iterable[str], known: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """The leader of each partition, from ``orders-3=1`` or ``orders-*=b1``.

    Raises UsageError: a text that is not of this form, or a partition with two leaders.
    """
    leaders: dict[TopicPartition, int] = {}
    for text in texts:
        name, separator, broker = text.rpartition("=")
        matched = _BROKER.fullmatch(broker)
        if not separator or matched is None:
            raise UsageError(f"{text!r} is not TOPIC-PARTITION=BROKER: write it like orders-3=1.")
        for partition in _named(name, known):
            wanted = int(matched[1])
            if leaders.setdefault(partition, wanted) != wanted:
                raise UsageError(f"{partition} is given two leaders: keep one of them.")
    return leaders


def require_topics(names: Collection[str], snapshot: ClusterSnapshot) -> None:
    """See that the cluster has every topic of *names*. Raises UsageError: it has not."""
    known = {state.partition.topic for state in snapshot.partitions}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"Cluster {snapshot.cluster_id} has no topic {', '.join(unknown)}: correct the name, "
            "or leave --topics out for all."
        )


def _named(name: str, known: Collection[TopicPartition]) -> Iterable[TopicPartition]:
    matched = _PARTITION.fullmatch(name)
    if matched is None:
        raise UsageError(f"{name!r} is not TOPIC-PARTITION: write it like orders-3 or 'orders-*'.")
    topic, number = matched["topic"], matched["number"]
    if number != "*":
        return (TopicPartition(topic, int(number)),)
    members = [partition for partition in known if partition.topic == topic]
    if not members:
        raise UsageError(f"The plan has no partition of topic {topic}: name one that it has.")
    return members
