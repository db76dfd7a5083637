"""Backups as lines that can be filtered, sorted and opened: places, topics in them, partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from breakglass.services.backup_watch.job import Life
from breakglass.services.backup_watch.live_ends import NOT_ASKED, LiveEnds
from breakglass.services.backup_watch.location import TopicHeld
from breakglass.services.backup_watch.states import BackupState, running_topics, state_of
from breakglass.services.backup_watch.watch import BackupStanding, WatchedLocation
from breakglass.services.model import Unknown
from breakglass.services.topic_backup.status import PartitionStatus

Lag: TypeAlias = int | Unknown | None
"""Offsets that are not backed up yet; None where a later generation goes on."""


class TopicOrder(StrEnum):
    """By what topics are sorted within their place."""

    URGENCY = "urgency"
    NAME = "name"
    LAG = "lag"
    AGE = "age"
    SIZE = "size"


@dataclass(frozen=True, slots=True)
class BackupsView:
    """How the lines are wanted."""

    filter: str = ""
    """Words, all of which are in the name, the place, or are the state."""
    order: TopicOrder = TopicOrder.URGENCY
    opened: frozenset[tuple[str, str]] = frozenset()
    """Topics whose partitions are shown, by place and name."""
    closed: frozenset[str] = frozenset()
    """Places whose topics are not."""


@dataclass(frozen=True, slots=True)
class PlaceLine:
    """A place of backups."""

    place: WatchedLocation
    jobs: int
    """That run there."""
    closed: bool


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A generation of a topic."""

    url: str
    held: TopicHeld
    state: BackupState
    lag: Lag
    opened: bool


@dataclass(frozen=True, slots=True)
class BackupPartitionLine:
    """A partition of one."""

    url: str
    held: TopicHeld
    part: PartitionStatus
    lag: Lag


Line: TypeAlias = PlaceLine | TopicLine | BackupPartitionLine


def key_of(line: Line) -> tuple[str, str, int]:
    """By which the cursor finds its line again: place, topic, partition."""
    match line:
        case PlaceLine():
            return (line.place.url, "", -1)
        case TopicLine():
            return (line.url, line.held.name, -1)
        case BackupPartitionLine():
            return (line.url, line.held.name, line.part.partition)


@dataclass(frozen=True, slots=True)
class BackupSurvey:
    """Everything the lines are made of, judged once: not for a thread that draws."""

    standing: BackupStanding
    topics: tuple[tuple[TopicLine, ...], ...]
    """For each place, none of them opened."""
    ends: LiveEnds | Unknown = NOT_ASKED


def survey(standing: BackupStanding, ends: LiveEnds | Unknown) -> BackupSurvey:
    """Judge every topic of *standing*."""
    made = []
    for place in standing.places:
        running = running_topics(standing.jobs, place.url)
        made.append(
            tuple(
                TopicLine(place.url, one, state_of(one, running), topic_lag(one, ends), False)
                for one in place.topics
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
    """The lines of *made* as *view* wants them."""
    words = view.filter.lower().split()
    shown: list[Line] = []
    for place, topics in zip(made.standing.places, made.topics, strict=True):
        closed = place.url in view.closed
        shown.append(PlaceLine(place, _jobs_at(made.standing, place.url), closed))
        kept = [one for one in topics if _keeps(words, one)]
        for one in () if closed else sorted(kept, key=_ORDERS[view.order]):
            opened = (one.url, one.held.name) in view.opened
            shown.append(TopicLine(one.url, one.held, one.state, one.lag, opened))
            if opened:
                shown += _partitions(one, made.ends)
    return shown


def _jobs_at(standing: BackupStanding, url: str) -> int:
    return sum(one.job.url == url and one.life is not Life.DEAD for one in standing.jobs)


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
    """To sort by: what is not known first, then the most."""
    return (0, 0) if not isinstance(value, int) else (1, -value)


_URGENCY = {state: number for number, state in enumerate(BackupState)}

_ORDERS: dict[TopicOrder, Callable[[TopicLine], tuple[object, ...]]] = {
    TopicOrder.URGENCY: lambda one: (_URGENCY[one.state], one.held.topic, one.held.generation),
    TopicOrder.NAME: lambda one: (one.held.topic, one.held.generation),
    TopicOrder.LAG: lambda one: (_most(one.lag), one.held.topic, one.held.generation),
    TopicOrder.AGE: lambda one: (_committed(one), one.held.topic, one.held.generation),
    TopicOrder.SIZE: lambda one: (_most(one.held.bytes), one.held.topic, one.held.generation),
}


def _committed(line: TopicLine) -> int:
    """The oldest first, what was never committed before all."""
    status = line.held.status
    return -1 if status is None or status.committed_at_ms is None else status.committed_at_ms
