"""Reads the folders that brokers renamed to ``-stray``, and says which of them can come back.

A broker that starts renames the folder of a replica that the metadata does not know, or assigns to
other brokers: ``orders-0`` becomes ``orders-0.<32 hex>-stray``. It deletes nothing. If the folder
gets its name back while the broker is stopped, and the metadata has the topic id and the assignment
when the broker starts, all its records are back. Nothing is written here: the operator renames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from breakglass.services.divergence.log_source import open_log
from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.model import TopicPartition, Unknown, kafka_id
from breakglass.services.quorum.comparison import ComparedCopy
from breakglass.services.quorum.data_folders import newest_ms
from breakglass.services.quorum.image import Key, PartitionMetadata, replay
from breakglass.services.quorum.inspection import QuorumInspection, inspect_copies
from breakglass.services.recovery.rescue.broker_folder import topic_id_in

LONGEST_NAME = 255
"""Kafka cuts the topic in a name that would be longer."""
_STRAY = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}-stray", re.ASCII)


class StrayFate(StrEnum):
    """Whether a stray folder can come back."""

    RETURNS = "comes back"
    OTHER_COPY = "another copy"
    ASSIGNED_ELSEWHERE = "not assigned"
    PLACE_TAKEN = "place taken"
    NAME_TAKEN = "name taken"
    DELETED = "deleted"
    NOT_KNOWN = "not known"


class FoundStray(NamedTuple):
    """A stray folder: what it has, and what becomes of it if it gets its name back."""

    broker: int | Unknown
    path: Path
    partition: TopicPartition
    topic_id: UUID | None
    start: int | Unknown
    end: int | Unknown
    """The log start and end; at most ``end - start`` records."""
    newest_ms: int | Unknown
    fate: StrayFate
    why: str

    @property
    def owner(self) -> str:
        return "?" if isinstance(self.broker, Unknown) else f"b{self.broker}"

    @property
    def target(self) -> Path:
        """The folder's name before."""
        return self.path.with_name(str(self.partition))


def find_strays(
    sources: Sequence[str],
    copy: str | None = None,
    go_on: Callable[[], object] = lambda: None,
) -> tuple[QuorumInspection, tuple[FoundStray, ...]]:
    """The stray folders in *sources*, judged by the best copy of the metadata, or by *copy*.

    Raises as `inspect_copies`, and
        Refused: the copy cannot be read.
    """
    found = inspect_copies(sources, copy, go_on)
    if isinstance(found.state, Unknown):
        raise Refused(f"{found.chosen.copy.path} cannot be read: {found.state.reason}")
    others = [one for one in found.copies if one is not found.chosen]
    strays = [
        _judged(Path(name), folder.node, match, found, others)
        for folder in found.named
        for name in folder.strays
        if (match := _STRAY.fullmatch(Path(name).name))
    ]
    return found, tuple(strays)


def _judged(
    path: Path,
    broker: int | Unknown,
    name: re.Match[str],
    found: QuorumInspection,
    others: Sequence[ComparedCopy],
) -> FoundStray:
    topic_id = topic_id_in(path)
    assert isinstance(found.state, Mapping)
    known = found.state.get(("topic", topic_id))
    partition = TopicPartition(known or name[1], int(name[2]))
    start: int | Unknown
    end: int | Unknown
    newest: int | Unknown
    try:
        log = open_log(path.name, path)
        start, end, newest = log.extent.start, log.extent.end, newest_ms(log)
    except BreakglassError as error:
        start = end = newest = Unknown(str(error))
    held = (broker, path, partition, topic_id, start, end, newest)
    fate, why = _fate(held[:4], found.state, found.chosen)
    if fate is StrayFate.NOT_KNOWN and topic_id is not None:
        key = ("partition", topic_id, partition.partition)
        knowing = [one for one in others if key in _state(one)]
        if knowing:
            names = ", ".join(str(one.copy.path) for one in knowing)
            why = f"known to {names}: quorum plan --copy brings the cluster back from it"
            fate = StrayFate.OTHER_COPY
        elif len(path.name) >= LONGEST_NAME:
            why = f"{why}; Kafka has cut its name, which begins {name[1]}"
    return FoundStray(*held, fate, why)


def _state(one: ComparedCopy) -> Mapping[Key, Any]:
    try:
        return replay([one.copy], one.copy.end.offset).values
    except BreakglassError:
        return {}


def _fate(
    held: tuple[int | Unknown, Path, TopicPartition, UUID | None],
    state: Mapping[Key, Any],
    chosen: ComparedCopy,
) -> tuple[StrayFate, str]:
    """What becomes of the folder by *state*, and why."""
    broker, path, partition, topic_id = held
    if topic_id is None:
        return StrayFate.NOT_KNOWN, "its partition.metadata names no topic id"
    if ("topic", topic_id) not in state:
        ids = {name: key[1] for key, name in state.items() if key[0] == "topic"}
        if partition.topic in ids:
            other = kafka_id(ids[partition.topic])
            return StrayFate.NAME_TAKEN, f"topic {partition.topic} has another id, {other}"
        if topic_id in chosen.copy.deleted:
            return StrayFate.DELETED, "the copy's log deletes its topic"
        return StrayFate.NOT_KNOWN, "no copy that was named knows its topic id"
    assigned: PartitionMetadata | None = state.get(("partition", topic_id, partition.partition))
    if assigned is None:
        return StrayFate.NOT_KNOWN, "the copy knows its topic, but not the partition"
    if broker not in assigned.replicas:
        brokers = ",".join(map(str, assigned.replicas))
        return StrayFate.ASSIGNED_ELSEWHERE, f"the copy assigns the partition to {brokers}"
    if path.with_name(str(partition)).exists():
        return StrayFate.PLACE_TAKEN, "the broker has made another folder of this partition"
    return StrayFate.RETURNS, "the copy has its topic id and assigns it to this broker"
