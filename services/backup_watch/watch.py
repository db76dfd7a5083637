"""Looks at the places of backups again and again, each in a thread of its own.

A folder on a disk that hangs keeps its thread, and nothing else: not the other folders, not who
asks, not the end of the process. Its last answer stays, with its age.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import is_

from breakglass.services.backup_watch.job import Life, SeenJob, read_jobs
from breakglass.services.backup_watch.location import (
    LocationHeld,
    TopicHeld,
    full_address,
    read_location,
)
from breakglass.services.backup_watch.states import BackupState, state_of
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.figure import Figure
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind
from breakglass.services.model import Unknown, known

EVERY_MS = 5_000
"""Between two looks at a place, at least; it waits ten times what the last look took."""
REST = 10
NOT_YET: Figure[LocationHeld] = Figure(Unknown("it is being read"), 0)
THREAD_NAME = "backups"


@dataclass(frozen=True, slots=True)
class WatchedLocation:
    """One folder of backups, as far as it is known."""

    url: str
    held: Figure[LocationHeld] = NOT_YET
    reading_since_ms: int | None = None
    """When the look under way began."""
    next_ms: int = 0
    """When it is to be looked at again."""

    @property
    def topics(self) -> tuple[TopicHeld, ...]:
        value = self.held.value
        return value.topics if known(value) else ()


@dataclass(frozen=True, slots=True)
class BackupStanding:
    """Everything that is known now."""

    places: tuple[WatchedLocation, ...] = ()
    jobs: tuple[SeenJob, ...] = ()

    def same_as(self, other: BackupStanding) -> bool:
        """Whether no place was looked at between the two, and no job has told anything."""
        alike = len(self.places) == len(other.places) and self.jobs == other.jobs
        return alike and all(map(is_, self.places, other.places))


class BackupWatch:
    """The places that were named, and those that jobs on this machine work with.

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
        """Look at nothing yet."""
        self._read, self._read_jobs = read, jobs
        self.now_ms = now_ms
        """The clock that every age is by."""
        self._changed = threading.Condition()
        self._places = {url: WatchedLocation(url) for url in map(_address, urls)}
        self._jobs: tuple[SeenJob, ...] = ()

    @property
    def standing(self) -> BackupStanding:
        """What is known now."""
        with self._changed:
            return BackupStanding(tuple(self._places.values()), self._jobs)

    def look(self, *, now: bool = False) -> BackupStanding:
        """Read what jobs tell, and begin to look at every place whose time has come.

        With *now* every place's time has come. Waits for no place.
        """
        at = self.now_ms()
        jobs = tuple(self._read_jobs(at))
        with self._changed:
            self._jobs = jobs
            for one in jobs:
                if one.life is not Life.DEAD:
                    self._places.setdefault(one.job.url, WatchedLocation(one.job.url))
            for place in tuple(self._places.values()):
                if place.reading_since_ms is None and (now or at >= place.next_ms):
                    self._begin(place, at)
            return BackupStanding(tuple(self._places.values()), jobs)

    def glance(self, deadline: Deadline) -> BackupGlance:
        """How everything stands, in a line; waits for places that were never read."""
        self.look()
        with self._changed:
            self._changed.wait_for(self._all_read, deadline.remaining())
        return glance_of(self.standing)

    def _all_read(self) -> bool:
        return all(one.held is not NOT_YET for one in self._places.values())

    def _begin(self, place: WatchedLocation, at: int) -> None:
        self._places[place.url] = replace(place, reading_since_ms=at)
        # A daemon: nobody can end a thread that a hung disk keeps, nor has to wait for it.
        name = f"{THREAD_NAME} {place.url}"
        threading.Thread(target=self._look_at, args=(place.url,), name=name, daemon=True).start()

    def _look_at(self, url: str) -> None:
        """In a thread of its own."""
        began = time.monotonic()
        found: LocationHeld | Unknown
        try:
            found = self._read(url)
        except BreakglassError as error:
            found = Unknown(str(error))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen tells it
            found = Unknown(f"it cannot be read ({type(error).__name__}: {error})")
        took_ms = int((time.monotonic() - began) * 1000)
        with self._changed:
            now = self.now_ms()
            held = self._places[url].held.again(found, now)
            rest = max(EVERY_MS, REST * took_ms)
            self._places[url] = WatchedLocation(url, held, None, now + rest)
            self._changed.notify_all()


def glance_of(standing: BackupStanding) -> BackupGlance:
    """*standing* in a line."""
    topics = [one for place in standing.places for one in place.topics if one.newest]
    running = [one for one in standing.jobs if one.life is Life.RUNNING]
    newest = [one.held.value.newest_ms for one in standing.places if known(one.held.value)]
    verified = sum(state_of(one) is BackupState.VERIFIED for one in topics)
    state = f"{verified:,} of {len(topics):,} verified"
    if running:
        state = ", ".join(f"{one.job.kind} running" for one in running) + f", {state}"
    moments = [one for one in newest if one is not None]
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
        told += [f"{one.name} {state}" for one in place.topics if (state := _bad(one))]
    told += [
        f"a {one.job.kind} to {one.job.url} died: run it again"
        for one in standing.jobs
        if one.life is Life.DEAD
    ]
    told += [
        f"the {one.job.kind} to {one.job.url} is {Behind(one.job.behind_since_ms, one.job.behind)}"
        for one in standing.jobs
        if one.life is not Life.DEAD and one.job.behind
    ]
    return told


def _bad(held: TopicHeld) -> str:
    state = state_of(held)
    if state in (BackupState.UNREADABLE, BackupState.DAMAGED):
        return str(state)
    return f"lost {held.lost:,} offsets" if state is BackupState.LOST else ""


def _address(url: str) -> str:
    """*url* in full; as it is where it is no address, which reading it then tells."""
    try:
        return full_address(url)
    except BreakglassError:
        return url
