"""The table of backups: locations, topics and partitions as lines to filter, sort and expand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from breakglass.services.backup_watch.job import Life
from breakglass.services.backup_watch.live_ends import NOT_ASKED, LiveEnds
from breakglass.services.backup_watch.location import (
    BackupState,
    TopicHeld,
    running_topics,
    state_of,
)
from breakglass.services.backup_watch.watch import BackupStanding, WatchedLocation
from breakglass.services.model import Unknown
from breakglass.services.topic_backup.status import PartitionStatus

Lag: TypeAlias = int | Unknown | None
"""Offsets not backed up yet; None if a later generation continues the backup."""


class TopicOrder(StrEnum):
    """How topics are sorted within their location."""

    URGENCY = "urgency"
    NAME = "name"
    LAG = "lag"
    AGE = "age"
    SIZE = "size"


@dataclass(frozen=True, slots=True)
class BackupsView:
    """How the user wants to see the lines."""

    filter: str = ""
    """Words that must each match the name, the location or the state."""
    order: TopicOrder = TopicOrder.URGENCY
    opened: frozenset[tuple[str, str]] = frozenset()
    """Topics whose partitions are shown, by location and name."""
    closed: frozenset[str] = frozenset()
    """Locations whose topics are hidden."""


@dataclass(frozen=True, slots=True)
class PlaceLine:
    """A location of backups."""

    place: WatchedLocation
    jobs: int
    """How many jobs run on this location."""
    closed: bool


@dataclass(frozen=True, slots=True)
class TopicLine:
    """One generation of a topic."""

    url: str
    held: TopicHeld
    state: BackupState
    lag: Lag
    opened: bool


@dataclass(frozen=True, slots=True)
class BackupPartitionLine:
    """One partition of a topic."""

    url: str
    held: TopicHeld
    part: PartitionStatus
    lag: Lag


Line: TypeAlias = PlaceLine | TopicLine | BackupPartitionLine


def key_of(line: Line) -> tuple[str, str, int]:
    """The key by which the cursor finds its line again: location, topic, partition."""
    match line:
        case PlaceLine():
            return (line.place.url, "", -1)
        case TopicLine():
            return (line.url, line.held.name, -1)
        case BackupPartitionLine():
            return (line.url, line.held.name, line.part.partition)


@dataclass(frozen=True, slots=True)
class BackupSurvey:
    """The data behind the lines, computed once; too slow for a thread that draws."""

    standing: BackupStanding
    topics: tuple[tuple[TopicLine, ...], ...]
    """The topics of each location, without their partitions."""
    ends: LiveEnds | Unknown = NOT_ASKED


def survey(standing: BackupStanding, ends: LiveEnds | Unknown) -> BackupSurvey:
    """Determine the state of every topic of *standing*."""
    made = []
    for place in standing.places:
        running = running_topics(standing.jobs, place.url)
        made.append(
            tuple(
                TopicLine(place.url, topic, state_of(topic, running), topic_lag(topic, ends), False)
                for topic in place.topics
            )
        )
    return BackupSurvey(standing, tuple(made), ends)


def topic_lag(held: TopicHeld, ends: LiveEnds | Unknown) -> Lag:
    """Offsets of the topic that are not in its backup yet."""
    if not held.newest:
        return None
    if isinstance(ends, Unknown):
        return ends
    return Unknown(held.unread) if held.status is None else ends.total_lag(held.status)


def lines(made: BackupSurvey, view: BackupsView) -> list[Line]:
    """The lines of *made*, as *view* asks for them."""
    words = view.filter.lower().split()
    shown: list[Line] = []
    for place, topics in zip(made.standing.places, made.topics, strict=True):
        closed = place.url in view.closed
        shown.append(PlaceLine(place, _jobs_at(made.standing, place.url), closed))
        kept = [topic for topic in topics if _keeps(words, topic)]
        for line in () if closed else sorted(kept, key=_ORDERS[view.order]):
            opened = (line.url, line.held.name) in view.opened
            shown.append(TopicLine(line.url, line.held, line.state, line.lag, opened))
            if opened:
                shown += _partitions(line, made.ends)
    return shown


def _jobs_at(standing: BackupStanding, url: str) -> int:
    return sum(job.job.url == url and job.life is not Life.DEAD for job in standing.jobs)


def _partitions(line: TopicLine, ends: LiveEnds | Unknown) -> Iterator[BackupPartitionLine]:
    for part in line.held.partitions:
        yield BackupPartitionLine(line.url, line.held, part, _partition_lag(line.held, part, ends))


def _partition_lag(held: TopicHeld, part: PartitionStatus, ends: LiveEnds | Unknown) -> Lag:
    if not held.newest:
        return None
    if isinstance(ends, Unknown):
        return ends
    return Unknown(held.unread) if held.status is None else ends.lag(held.status, part)


def _keeps(words: Sequence[str], line: TopicLine) -> bool:
    told = f"{line.url} {line.held.name} {line.state}".lower()
    return all(_fits(word, told) for word in words)


def _fits(word: str, told: str) -> bool:
    return word[1:] not in told if len(word) > 1 and word[0] == "-" else word in told


def _most(value: int | Unknown | None) -> tuple[int, int]:
    """Sort key: unknown values first, then the largest."""
    return (0, 0) if not isinstance(value, int) else (1, -value)


_URGENCY = {state: number for number, state in enumerate(BackupState)}

_ORDERS: dict[TopicOrder, Callable[[TopicLine], tuple[object, ...]]] = {
    TopicOrder.URGENCY: lambda line: (_URGENCY[line.state], line.held.topic, line.held.generation),
    TopicOrder.NAME: lambda line: (line.held.topic, line.held.generation),
    TopicOrder.LAG: lambda line: (_most(line.lag), line.held.topic, line.held.generation),
    TopicOrder.AGE: lambda line: (_committed(line), line.held.topic, line.held.generation),
    TopicOrder.SIZE: lambda line: (_most(line.held.bytes), line.held.topic, line.held.generation),
}


def _committed(line: TopicLine) -> int:
    """Sort key: topics that were never committed first, then the oldest commit."""
    status = line.held.status
    return -1 if status is None or status.committed_at_ms is None else status.committed_at_ms
