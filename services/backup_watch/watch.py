"""Reads the locations of backups periodically, each in its own thread.

A disk that hangs blocks only the thread of its location: other locations, callers and the exit
of the process do not wait for it. The last result remains available, with its age.

The table of backups: locations, topics and partitions as lines to filter, sort and expand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from breakglass.services.backup_watch.job import Life, SeenJob, read_jobs
from breakglass.services.backup_watch.location import (
    NOT_ASKED,
    BackupState,
    LiveEnds,
    LocationHeld,
    TopicHeld,
    full_address,
    read_location,
    running_topics,
    state_of,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.figure import Figure
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind
from breakglass.services.model import Unknown, known
from breakglass.services.topic_backup.catalog import PartitionStatus

if TYPE_CHECKING:
    from breakglass.services.topic_backup.store.blobs import Key

EVERY_MS = 5_000
"""Minimum time between two reads of a location; it also waits ten times the last read's duration.
"""
REST = 10
NOT_YET: Figure[LocationHeld] = Figure(Unknown("it is being read"), 0)
THREAD_NAME = "backups"


@dataclass(frozen=True, slots=True)
class WatchedLocation:
    """One location of backups, with its last result."""

    url: str
    held: Figure[LocationHeld] = NOT_YET
    reading_since_ms: int | None = None
    next_ms: int = 0

    @property
    def topics(self) -> tuple[TopicHeld, ...]:
        value = self.held.value
        return value.topics if known(value) else ()


@dataclass(frozen=True, slots=True)
class BackupStanding:
    """The last results of all locations."""

    places: tuple[WatchedLocation, ...] = ()
    jobs: tuple[SeenJob, ...] = ()

    def same_as(self, other: BackupStanding) -> bool:
        """Whether no location was read and no job reported between the two."""
        alike = len(self.places) == len(other.places) and self.jobs == other.jobs
        return alike and all(map(is_, self.places, other.places))


class BackupWatch:
    """Watches the given locations and those that jobs on this machine use.

    Its methods may be called from any thread.
    """

    name = "backups"

    def __init__(
        self,
        urls: Sequence[str] = (),
        *,
        key: Key | None = None,
        read: Callable[[str], LocationHeld] = read_location,
        jobs: Callable[[int], Sequence[SeenJob]] = read_jobs,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        """Create the watch without reading anything. The *key* is that of encrypted backups."""
        self._read = read if key is None else partial(read_location, key=key)
        self._read_jobs = jobs
        self.now_ms = now_ms
        """The clock from which every age is computed."""
        self._changed = threading.Condition()
        self._places = {url: WatchedLocation(url) for url in map(_address, urls)}
        self._jobs: tuple[SeenJob, ...] = ()

    @property
    def standing(self) -> BackupStanding:
        with self._changed:
            return BackupStanding(tuple(self._places.values()), self._jobs)

    def look(self, *, now: bool = False) -> BackupStanding:
        """Read the jobs' reports, and start to read every location that is due.

        With *now*, every location is due. The call does not wait for any location.
        """
        at = self.now_ms()
        jobs = tuple(self._read_jobs(at))
        with self._changed:
            self._jobs = jobs
            for job in jobs:
                if job.life is not Life.DEAD:
                    self._places.setdefault(job.job.url, WatchedLocation(job.job.url))
            for place in tuple(self._places.values()):
                if place.reading_since_ms is None and (now or at >= place.next_ms):
                    self._begin(place, at)
            return BackupStanding(tuple(self._places.values()), jobs)

    def glance(self, deadline: Deadline) -> BackupGlance:
        """Summarize the state in one line; wait for locations that were never read."""
        self.look()
        with self._changed:
            self._changed.wait_for(self._all_read, deadline.remaining())
        return glance_of(self.standing)

    def _all_read(self) -> bool:
        return all(place.held is not NOT_YET for place in self._places.values())

    def _begin(self, place: WatchedLocation, at: int) -> None:
        self._places[place.url] = replace(place, reading_since_ms=at)
        # A daemon thread, because the exit of the process must not wait for a disk that hangs.
        name = f"{THREAD_NAME} {place.url}"
        threading.Thread(target=self._look_at, args=(place.url,), name=name, daemon=True).start()

    def _look_at(self, url: str) -> None:
        """Read one location; runs in its own thread."""
        began = time.monotonic()
        found: LocationHeld | Unknown
        try:
            found = self._read(url)
        except BreakglassError as error:
            found = Unknown(str(error))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            found = Unknown(f"it cannot be read ({type(error).__name__}: {error})")
        took_ms = int((time.monotonic() - began) * 1000)
        with self._changed:
            now = self.now_ms()
            held = self._places[url].held.again(found, now)
            rest = max(EVERY_MS, REST * took_ms)
            self._places[url] = WatchedLocation(url, held, None, now + rest)
            self._changed.notify_all()


def glance_of(standing: BackupStanding) -> BackupGlance:
    """Summarize *standing* in one line."""
    topics = [topic for place in standing.places for topic in place.topics if topic.newest]
    running = [job for job in standing.jobs if job.life is Life.RUNNING]
    newest = [place.held.value.newest_ms for place in standing.places if known(place.held.value)]
    verified = sum(state_of(topic) is BackupState.VERIFIED for topic in topics)
    state = f"{verified:,} of {len(topics):,} verified"
    if running:
        state = ", ".join(f"{job.job.kind} running" for job in running) + f", {state}"
    moments = [number for number in newest if number is not None]
    return BackupGlance(
        state,
        max(moments) if moments else None if newest else Unknown("no place could be read"),
        "; ".join(_troubles(standing)),
    )


def _troubles(standing: BackupStanding) -> list[str]:
    told = []
    for place in standing.places:
        reason = place.held.failed or place.held.value
        if isinstance(reason, Unknown):
            told.append(f"{place.url}: {reason.reason}")
        told += [f"{topic.name} {state}" for topic in place.topics if (state := _bad(topic))]
    told += [
        f"a {job.job.kind} to {job.job.url} died: run it again"
        for job in standing.jobs
        if job.life is Life.DEAD
    ]
    told += [
        f"the {job.job.kind} to {job.job.url} is {Behind(job.job.behind_since_ms, job.job.behind)}"
        for job in standing.jobs
        if job.life is not Life.DEAD and job.job.behind
    ]
    return told


def _bad(held: TopicHeld) -> str:
    state = state_of(held)
    if state in (BackupState.UNREADABLE, BackupState.DAMAGED):
        return str(state)
    return f"lost {held.lost:,} offsets" if state is BackupState.LOST else ""


def _address(url: str) -> str:
    """*url* as a full address, or unchanged if it is invalid; reading it then reports the error."""
    try:
        return full_address(url)
    except BreakglassError:
        return url


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
        jobs = [job for job in made.standing.jobs if job.job.url == place.url]
        shown.append(PlaceLine(place, sum(job.life is not Life.DEAD for job in jobs), closed))
        kept = [topic for topic in topics if _keeps(words, topic)]
        for line in () if closed else sorted(kept, key=_ORDERS[view.order]):
            opened = (line.url, line.held.name) in view.opened
            shown.append(TopicLine(line.url, line.held, line.state, line.lag, opened))
            if opened:
                shown += _partitions(line, made.ends)
    return shown


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
    return all(
        (word[1:] not in told if len(word) > 1 and word[0] == "-" else word in told)
        for word in words
    )


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
