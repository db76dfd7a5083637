"""Reads the locations of backups periodically, each in its own thread.

A disk that hangs blocks only the thread of its location: other locations, callers and the exit
of the process do not wait for it. The last result remains available, with its age.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import is_

from breakglass.services.backup_watch.job import Life, SeenJob, read_jobs
from breakglass.services.backup_watch.location import (
    BackupState,
    LocationHeld,
    TopicHeld,
    full_address,
    read_location,
    state_of,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.figure import Figure
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind
from breakglass.services.model import Unknown, known

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
    """When the current read began."""
    next_ms: int = 0
    """When the next read is due."""

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
        read: Callable[[str], LocationHeld] = read_location,
        jobs: Callable[[int], Sequence[SeenJob]] = read_jobs,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        """Create the watch without reading anything."""
        self._read, self._read_jobs = read, jobs
        self.now_ms = now_ms
        """The clock from which every age is computed."""
        self._changed = threading.Condition()
        self._places = {url: WatchedLocation(url) for url in map(_address, urls)}
        self._jobs: tuple[SeenJob, ...] = ()

    @property
    def standing(self) -> BackupStanding:
        """The last results."""
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
