"""Reads the folders that brokers renamed to ``-stray``, and says which of them can come back.

A broker that starts renames the folder of a replica that the metadata does not know, or assigns to
other brokers: ``orders-0`` becomes ``orders-0.<32 hex>-stray``. It deletes nothing. If the folder
gets its name back while the broker is stopped, and the metadata has the topic id and the assignment
when the broker starts, all its records are back. Nothing is written here: the operator renames.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from breakglass.services.divergence.log_source import open_log
from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.model import TopicPartition, Unknown, kafka_id
from breakglass.services.quorum.comparison import ComparedCopy
from breakglass.services.quorum.data_folders import DataFindings, FoundReplica, newest_ms
from breakglass.services.quorum.image import Key, PartitionMetadata
from breakglass.services.quorum.inspection import QuorumInspection, inspect_copies, state_of
from breakglass.services.recovery.rescue.broker_folder import topic_id_in

SHOWN = 5
"""Topics and users that a sentence or a phrase names."""
LONGEST_NAME = 255
"""Kafka cuts the topic in a name that would be longer."""
_STRAY = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}-stray", re.ASCII)


class StrayFate(StrEnum):
    """Whether a stray folder can come back."""

    RETURNS = "comes back"
    OTHER_COPY = "another copy"
    ASSIGNED_ELSEWHERE = "not assigned"
    PLACE_TAKEN = "place taken"
    SHORTER = "shorter"
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


def inspect_with_strays(
    sources: Sequence[str], copy: str | None, go_on: Callable[[], object]
) -> QuorumInspection:
    """What `inspect_copies` finds, and the strays with records that no other folder has."""
    found = inspect_copies(sources, copy, go_on)
    return replace(found, renamed=evidence_in(found))


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
    return found, judged_strays(found)


def judged_strays(found: QuorumInspection) -> tuple[FoundStray, ...]:
    """The stray folders of what was *found*, by the chosen copy, which could be read."""
    states: dict[Path, Mapping[Key, Any]] = {}

    def knowing(key: Key) -> list[Path]:
        """The other copies that know the partition."""
        for one in found.copies:
            if one is not found.chosen and one.copy.path not in states:
                states[one.copy.path] = state_of(one.copy)
        return [path for path, values in states.items() if key in values]

    strays = [
        _judged(Path(name), folder.node, match, found, knowing)
        for folder in found.named
        for name in folder.strays
        if (match := _STRAY.fullmatch(Path(name).name))
    ]
    longest: dict[tuple[Path, UUID | None], FoundStray] = {}
    for one in strays:
        if one.fate is StrayFate.RETURNS:
            key = one.target, one.topic_id
            longest[key] = max(longest.get(key, one), one, key=_length)
    return tuple(
        one._replace(fate=StrayFate.SHORTER, why=f"{first.path.name} of this partition is longer")
        if (first := longest.get((one.target, one.topic_id), one)) is not one
        and one.fate is StrayFate.RETURNS
        else one
        for one in strays
    )


def _length(stray: FoundStray) -> int:
    return stray.end if isinstance(stray.end, int) else -1


def evidence_in(found: QuorumInspection) -> tuple[FoundStray, ...]:
    """The strays whose records a cluster that comes back would lack.

    Not those of a topic that the copy deletes, and none whose partition has a log in the data
    folders that goes as far: on the broker itself or, if the copy assigns the partition to other
    brokers, on one of these.
    """
    if isinstance(found.state, Unknown):
        return ()
    data = found.data.found if isinstance(found.data, DataFindings) else ()
    there: dict[tuple[UUID, int], list[FoundReplica]] = {}
    for one in data:
        there.setdefault((one.topic_id, one.partition.partition), []).append(one)

    def lacks(stray: FoundStray) -> bool:
        if stray.fate is StrayFate.DELETED or stray.end == 0:
            return False
        if stray.topic_id is None or not isinstance(stray.end, int):
            return True
        elsewhere = stray.fate is StrayFate.ASSIGNED_ELSEWHERE
        return not any(
            one.end.offset >= stray.end and (elsewhere or one.path == stray.target)
            for one in there.get((stray.topic_id, stray.partition.partition), ())
        )

    return tuple(filter(lacks, judged_strays(found)))


def counted(strays: Iterable[FoundStray]) -> dict[str, int | Unknown]:
    """The records of each topic in *strays*: of each partition those of its longest log."""
    most: dict[tuple[str, UUID | None, int], int] = {}
    for one in strays:
        key = (one.partition.topic, one.topic_id, one.partition.partition)
        if isinstance(one.end, int) and isinstance(one.start, int):
            most[key] = max(one.end - one.start, most.get(key, 0))
    unread = {one.partition.topic for one in strays if isinstance(one.end, Unknown)}
    sums = Counter[str]()
    for (topic, _, _), number in most.items():
        sums[topic] += number
    names = sorted({*sums, *unread})
    return {one: Unknown("a log cannot be read") if one in unread else sums[one] for one in names}


def _judged(
    path: Path,
    broker: int | Unknown,
    name: re.Match[str],
    found: QuorumInspection,
    knowing: Callable[[Key], Sequence[Path]],
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
    if fate in (StrayFate.NOT_KNOWN, StrayFate.NAME_TAKEN) and topic_id is not None:
        key = ("partition", topic_id, partition.partition)
        if copies := knowing(key):
            names = ", ".join(map(str, copies))
            why = f"known to {names}: quorum plan --copy brings the cluster back from it"
            fate = StrayFate.OTHER_COPY
        elif fate is StrayFate.NOT_KNOWN and len(path.name) >= LONGEST_NAME:
            why = f"{why}; Kafka has cut its name, which begins {name[1]}"
    return FoundStray(*held, fate, why)


def stray_words(strays: Sequence[FoundStray]) -> str:
    """Which topics have *strays*, and how many records are in them."""
    records = counted(strays)
    known = [number for number in records.values() if isinstance(number, int)]
    named = [
        f"{topic} {'unknown' if isinstance(number, Unknown) else f'{number:,}'}"
        for topic, number in records.items()
    ]
    more = f" and {len(named) - SHOWN:,} more" if named[SHOWN:] else ""
    return (
        f"Brokers renamed {len(strays):,} folders to -stray, and {sum(known):,} records of "
        f"{len(named):,} topics are in them: {', '.join(named[:SHOWN])}{more}"
    )


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
        if topic_id in chosen.copy.deleted:
            return StrayFate.DELETED, "the copy's log deletes its topic"
        ids = {name: key[1] for key, name in state.items() if key[0] == "topic"}
        if partition.topic in ids:
            other = kafka_id(ids[partition.topic])
            return StrayFate.NAME_TAKEN, f"topic {partition.topic} has another id, {other}"
        return StrayFate.NOT_KNOWN, "no copy that was named knows its topic id"
    assigned: PartitionMetadata | None = state.get(("partition", topic_id, partition.partition))
    if assigned is None:
        return StrayFate.NOT_KNOWN, "the copy knows its topic, but not the partition"
    if broker not in assigned.replicas:
        brokers = ",".join(map(str, assigned.replicas))
        return StrayFate.ASSIGNED_ELSEWHERE, f"the copy assigns the partition to {brokers}"
    if path.with_name(str(partition)).exists():
        return StrayFate.PLACE_TAKEN, (
            "the broker has made another folder of this partition: if you want the stray, move "
            "that folder out of the log directory, and run this again"
        )
    return StrayFate.RETURNS, "the copy has its topic id and assigns it to this broker"
