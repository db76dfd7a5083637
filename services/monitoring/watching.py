"""Looks at every source again and again, each in a thread of its own, or once.

A cluster or a disk that hangs stops the looks at its own source alone. Each time that a source
falls silent, and when it answers again, that is reported once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from breakglass.services import patience
from breakglass.services.backup_watch.location import LiveEnds, LocationHeld, read_ends
from breakglass.services.backup_watch.watch import BackupWatch, WatchedLocation
from breakglass.services.checkpoint.watch import CheckpointWatch
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Monitor
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
from breakglass.services.metastore.glance import MetastoreGlance, SeenMetastore
from breakglass.services.model import Unknown
from breakglass.services.monitoring.looks import IncidentFigures, Looks, MonitoredSource
from breakglass.services.snapshot import Broker

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.session import ReadAccess

T = TypeVar("T")
Reported = Callable[[str, Behind | CaughtUpAgain], object]
"""Is given the source's name."""
NOT_YET = Unknown("it was not read yet")
ENDS_SECONDS = 60.0
"""The ends of topics are asked for with the metadata of all partitions, so not so often."""
RETRY_SECONDS = 5.0
"""A source that could not be read is looked at again this soon."""
JOIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class MonitoredPlaces:
    """What is looked at besides the cluster."""

    backups: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    metastores: tuple[Path, ...] = ()


class _Looking(Generic[T]):
    """Looks at one source; *read* gives what it finds, with the moment, in one or more steps."""

    def __init__(
        self,
        kind: str,
        place: str,
        read: Callable[[], Iterator[tuple[T | Unknown, int]]],
        seconds: float,
        report: Reported,
    ) -> None:
        self._read, self._seconds = read, seconds
        name = f"{kind} {place}".strip()
        self._alarm = LagAlarm(lambda change: report(name, change))
        self.source: MonitoredSource[T] = MonitoredSource(
            kind, place, Figure(NOT_YET, 0), int(seconds * 1000)
        )

    def look(self) -> float:
        """Look once; returns the seconds until the next look is due."""
        began = time.monotonic()
        try:
            for value, at_ms in self._read():
                self._take(value, at_ms)
        except BreakglassError as error:
            self._take(Unknown(str(error)), now_ms())
        except Exception as error:  # noqa: BLE001 -- a thread ends here; the report names it
            reason = f"it cannot be read ({type(error).__name__}: {error})"
            self._take(Unknown(reason), now_ms())
        took = time.monotonic() - began
        rest = max(self._seconds - took, self._seconds / 2)
        self._due(int((took + rest) * 1000))
        return min(rest, RETRY_SECONDS) if self.source.trouble else rest

    def look_once(self, _: threading.Event) -> None:
        """Look once, in a thread."""
        self.look()

    def run(self, stop: threading.Event) -> None:
        """Look until *stop*."""
        rest = 0.0
        while not stop.wait(rest):
            rest = self.look()

    def _take(self, value: T | Unknown, at_ms: int) -> None:
        before = self.source
        looked = before.looked.again(value, at_ms)
        self.source = MonitoredSource(before.kind, before.place, looked, before.every_ms)
        if isinstance(value, Unknown):
            self._alarm.behind(value.reason)
        else:
            self._alarm.up_to_date()

    def _due(self, every_ms: int) -> None:
        """A source whose looks take long is not stale while a look is under way."""
        before = self.source
        every_ms = max(int(self._seconds * 1000), every_ms)
        self.source = MonitoredSource(before.kind, before.place, before.looked, every_ms)


class MonitoringWatch:
    """Looks at a cluster and at places of backups; `close` ends every wait."""

    def __init__(
        self,
        access: ReadAccess,
        places: MonitoredPlaces,
        seconds: float,
        report: Reported,
        gone: Collection[int] = (),
    ) -> None:
        """Look at each source every so many *seconds*; asks nobody yet."""
        self._access, self._seconds = access, seconds
        self._report = report
        self._watch = IncidentWatch(access, gone=gone)
        self._incident: Incident | None = None
        self._monitor = Monitor()
        self._asker: ReadClient | None = None
        self._reached: tuple[Broker, ...] = ()
        self._backups = BackupWatch(places.backups)
        self._closing = ExitStack()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._cluster = _Looking("cluster", "", self._read_cluster, seconds, self._tell)
        self._ends = _Looking(
            "topic_ends", "", self._read_ends, max(seconds, ENDS_SECONDS), self._tell
        )
        self._checkpoints = [
            _Looking("checkpoints", url, _reading_store(url), seconds, self._tell)
            for url in places.checkpoints
        ]
        self._metastores = [
            _Looking("metastore", str(folder), _reading_metastore(folder), seconds, self._tell)
            for folder in places.metastores
        ]

    def start(self) -> None:
        """Begin to look, until `close`."""
        for looking in self._all:
            self._thread(looking.run)
        self._thread(self._look_at_backups)

    def look_once(self, seconds: float) -> None:
        """Look at every source, for at most so many *seconds*; a hung one is not waited for."""
        deadline = Deadline.after(seconds)
        self._thread(lambda _: self._look_at_cluster(deadline))
        self._thread(lambda _: self._look_at_backups_once(deadline))
        places: list[_Looking[Any]] = [*self._checkpoints, *self._metastores]
        for looking in places:
            self._thread(looking.look_once)
        for thread in self._threads:
            thread.join(deadline.remaining())

    @property
    def looks(self) -> Looks:
        """The last look at every source."""
        standing = self._backups.standing
        return Looks(
            self._cluster.source,
            self._monitor.health,
            self._ends.source if standing.places else None,
            tuple(map(self._place, standing.places)),
            standing.jobs,
            tuple([looking.source for looking in self._checkpoints]),
            tuple([looking.source for looking in self._metastores]),
        )

    def close(self) -> None:
        """End every wait, and every thread that nothing hangs."""
        self._stop.set()
        self._watch.close()
        self._closing.close()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    @property
    def _all(self) -> Sequence[_Looking[Any]]:
        """What has a thread; the ends of topics only where backups are watched."""
        ends = [self._ends] if self._backups.standing.places else []
        return [self._cluster, *ends, *self._checkpoints, *self._metastores]

    def _tell(self, source: str, change: Behind | CaughtUpAgain) -> None:
        """Report *change*, unless the watch itself ends the looks."""
        if not self._stop.is_set():
            self._report(source, change)

    def _thread(self, run: Callable[[threading.Event], object]) -> None:
        thread = threading.Thread(target=run, args=(self._stop,), daemon=True, name="monitoring")
        self._threads.append(thread)
        thread.start()

    def _look_at_cluster(self, deadline: Deadline) -> None:
        """Look until every offline partition is judged and no broker is waited for."""
        self._cluster.look()
        while not (deadline.passed or self._incident is None or self._incident.complete):
            self._cluster.look()

    def _look_at_backups_once(self, deadline: Deadline) -> None:
        self._backups.glance(deadline)
        if self._backups.standing.places:
            self._ends.look()

    def _look_at_backups(self, stop: threading.Event) -> None:
        """The watch of backups has a thread for each place: this one only says when to look."""
        while not stop.wait(min(self._seconds, 1.0)):
            self._backups.look()

    def _place(self, place: WatchedLocation) -> MonitoredSource[LocationHeld]:
        every_ms = max(int(self._seconds * 1000), place.next_ms - place.held.read_at_ms)
        return MonitoredSource("backups", place.url, place.held, every_ms)

    def _read_cluster(self) -> Iterator[tuple[IncidentFigures | Unknown, int]]:
        try:
            for number, incident in enumerate(self._watch.read(self._incident)):
                self._incident = incident
                if number == 0:
                    self._monitor.seen(incident.snapshot)
                figures = IncidentFigures.of(incident)
                yield figures, figures.read_at_ms
        except BreakglassError as error:
            self._monitor.missed(str(error))
            raise
        # Ask brokers about themselves, and for the settings that counts need.
        if self._asker is None:
            client = self._access.client()
            self._closing.callback(client.close)
            self._asker = client
        brokers = self._monitor.brokers
        if brokers != self._reached:
            self._asker.describe(Deadline.after(patience.LOOK))
            self._reached = brokers
        self._monitor.ask(self._asker)

    def _read_ends(self) -> Iterator[tuple[LiveEnds | Unknown, int]]:
        # The first look at a place says which topics there are.
        self._backups.glance(Deadline.after(patience.BRIEF))
        topics = {topic.topic for place in self._backups.standing.places for topic in place.topics}
        with self._access.reading() as client:
            yield read_ends(client, topics, Deadline.after(patience.COMMAND)), now_ms()


def _reading_store(
    url: str,
) -> Callable[[], Iterator[tuple[tuple[StoredCheckpoint, ...] | Unknown, int]]]:
    watch = CheckpointWatch((url,))

    def read() -> Iterator[tuple[tuple[StoredCheckpoint, ...] | Unknown, int]]:
        (store,) = watch.look()
        yield store.held, store.at_ms

    return read


def _reading_metastore(
    folder: Path,
) -> Callable[[], Iterator[tuple[tuple[SeenMetastore, ...] | Unknown, int]]]:
    glance = MetastoreGlance(folder)

    def read() -> Iterator[tuple[tuple[SeenMetastore, ...] | Unknown, int]]:
        yield glance.look(), now_ms()

    return read
