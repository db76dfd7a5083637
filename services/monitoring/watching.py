"""Looks at every source again and again, each in its own thread, and answers with their figures.

A cluster or a disk that hangs stops the looks at its own source alone. Each time that a source
falls silent, and when it answers again, that is reported once.

An answer has the figures of sources whose last look succeeded and is recent: clusters, topic
backups, checkpoints and metastore backups. Of any other source it only says that the source is
down, and when it was last read. Sums over 100,000 offline partitions take a tenth of a second, so
they are made once for each reading, and not for each answer.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from breakglass.services import patience
from breakglass.services.backup_watch.location import (
    NOT_ASKED,
    BackupState,
    Life,
    LiveEnds,
    LocationHeld,
    SeenJob,
    TopicHeld,
    read_ends,
    running_topics,
    state_of,
)
from breakglass.services.backup_watch.watch import BackupWatch, WatchedLocation, topic_lag
from breakglass.services.checkpoint.metrics import completed_at_ms, newest_completed
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.checkpoint.watch import CheckpointWatch
from breakglass.services.checkpoint.wording import level_of
from breakglass.services.checkpoint.zeebe_api import STATES
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.health.counts import Moves, PartitionCounts
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Health, Monitor
from breakglass.services.incident.elections_seen import unacknowledged
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
from breakglass.services.metastore.glance import MetastoreGlance, SeenMetastore
from breakglass.services.model import Unknown, known
from breakglass.services.monitoring import meters
from breakglass.services.monitoring.meters import MeterReadings
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.snapshot import Broker, Quorum

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.session import ReadAccess


UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class IncidentFigures:
    """What `Incident` says, in figures."""

    cluster_id: str
    read_at_ms: int
    offline: int
    verdicts: dict[str, int]
    """Every verdict, and `UNJUDGED`."""
    loss: int
    """Records, of the partitions whose loss is known."""
    loss_unknown: int
    """Partitions whose loss is unknown, those without a proposed leader among them."""
    unread: int
    """Records, at least."""
    evidence_at_ms: int | None
    costly_elections: int
    missing_acls: int

    @classmethod
    def of(cls, incident: Incident) -> IncidentFigures:
        """Sum up *incident*."""
        found = Counter(row.verdict for row in incident.rows)
        losses = [row.loss for row in incident.rows if isinstance(row.loss, int)]
        unread = [
            row.unread_at_least for row in incident.rows if isinstance(row.unread_at_least, int)
        ]
        return cls(
            incident.snapshot.cluster_id,
            incident.read_at_ms,
            len(incident.rows),
            {**{verdict.value: found[verdict] for verdict in Verdict}, UNJUDGED: found[None]},
            sum(losses),
            len(incident.rows) - len(losses),
            sum(unread),
            incident.evidence_at_ms,
            sum(1 for _ in unacknowledged(incident.observations)),
            len(incident.missing_acls),
        )


def read_incident(readings: MeterReadings, figures: IncidentFigures) -> None:
    """Add what is offline and at risk; the loss only where a partition's loss is known."""
    readings.add(meters.CLUSTER, 1, figures.cluster_id)
    readings.add(meters.OFFLINE, figures.offline)
    for verdict, number in figures.verdicts.items():
        readings.add(meters.VERDICTS, number, verdict)
    all_unknown = figures.offline > 0 and figures.loss_unknown == figures.offline
    readings.add(meters.LOSS, None if all_unknown else figures.loss)
    readings.add(meters.LOSS_UNKNOWN, figures.loss_unknown)
    readings.add(meters.UNREAD, figures.unread)
    readings.moment(meters.EVIDENCE, figures.evidence_at_ms)
    readings.add(meters.COSTLY, figures.costly_elections)
    readings.add(meters.MISSING_ACLS, figures.missing_acls)


def read_health(readings: MeterReadings, health: Health) -> None:
    """Add the figures of *health* that the last look could read; older figures are left out."""
    counts, brokers = _newest(health.counts), _newest(health.brokers)
    quorum, moves = _newest(health.quorum), _newest(health.reassignments)
    if isinstance(counts, PartitionCounts):
        readings.add(meters.PARTITIONS, counts.partitions)
        readings.add(meters.UNDER_MIN, counts.under_min_isr)
        readings.add(meters.MIN_UNKNOWN, counts.unjudged)
        readings.add(meters.UNDER_REPLICATED, counts.under_replicated)
    if isinstance(moves, Moves):
        readings.add(meters.MOVING, len(moves.moves))
    if isinstance(quorum, Quorum):
        readings.add(meters.QUORUM, quorum.leader is not None)
    if isinstance(brokers, tuple):
        readings.add(meters.BROKERS, len(brokers))
        fenced = [broker.fenced for broker in brokers]
        if not all(isinstance(state, Unknown) for state in fenced):
            readings.add(meters.FENCED, sum(state is True for state in fenced))
        asked = [broker for broker in brokers if isinstance(broker.voice.why_silent, str)]
        if asked:
            readings.add(meters.SILENT, sum(broker.voice.silent for broker in asked))
        dirs = [
            broker.offline_dirs
            for broker in asked
            if not broker.voice.silent and broker.voice.log_dirs.failed is None
        ]
        known_dirs = [number for number in dirs if isinstance(number, int)]
        if known_dirs:
            readings.add(meters.OFFLINE_DIRS, sum(known_dirs))


def _newest(figure: Figure[T]) -> T | Unknown:
    """The figure's value; Unknown where it could not be read again."""
    return figure.value if figure.failed is None else figure.failed


NOT_IN_A_STORE = frozenset({Status.DOES_NOT_EXIST})


def read_place(
    readings: MeterReadings,
    place: str,
    held: LocationHeld,
    jobs: Collection[SeenJob],
    ends: LiveEnds | Unknown,
) -> None:
    """Add the topics at *place*: of each topic the newest generation."""
    newest = [topic for topic in held.topics if topic.newest]
    running = running_topics(jobs, place)
    found = Counter(state_of(topic, running) for topic in newest)
    for state in BackupState:
        readings.add(meters.BACKUP_TOPICS, found[state], place, state.value)
    for topic in newest:
        _read_topic(readings, place, topic, ends)


def _read_topic(
    readings: MeterReadings, place: str, held: TopicHeld, ends: LiveEnds | Unknown
) -> None:
    """Add one topic; a backup whose manifest cannot be read counts by its state alone."""
    if held.status is None:
        return
    verified = held.status.verified
    labels = (place, held.topic)
    readings.moment(meters.BACKUP_COMMIT, held.status.committed_at_ms, *labels)
    readings.add(meters.BACKUP_LAG, topic_lag(held, ends), *labels)
    readings.add(meters.BACKUP_VERIFIED, held.status.verified_now, *labels)
    readings.moment(
        meters.BACKUP_VERIFIED_AT, None if verified is None else verified.at_ms, *labels
    )
    readings.add(meters.BACKUP_LOST, held.lost, *labels)


def read_jobs(readings: MeterReadings, jobs: Sequence[SeenJob]) -> None:
    """Add the jobs that reported, and since when those that are behind are."""
    found = Counter((seen.job.url, seen.job.kind, seen.life) for seen in jobs)
    for (url, kind, life), number in sorted(found.items()):
        readings.add(meters.JOBS, number, url, kind, life.value)
    behind: dict[tuple[str, str], int] = {}
    for seen in jobs:
        if seen.life is not Life.DEAD and seen.job.behind:
            key = (seen.job.url, seen.job.kind)
            behind[key] = min(behind.get(key, seen.job.behind_since_ms), seen.job.behind_since_ms)
    for (url, kind), since_ms in sorted(behind.items()):
        readings.moment(meters.JOB_BEHIND, since_ms, url, kind)


def read_store(
    readings: MeterReadings, place: str, checkpoints: Sequence[StoredCheckpoint]
) -> None:
    """Add the checkpoints of one store, given newest first."""
    found = Counter((level_of(checkpoint), checkpoint.status) for checkpoint in checkpoints)
    for level in sorted({level for level, _ in found}):
        for status, word in STATES.items():
            if status not in NOT_IN_A_STORE:
                readings.add(meters.CHECKPOINTS, found[level, status], place, level, word)
    for level, checkpoint in sorted(newest_completed(checkpoints).items()):
        readings.moment(meters.CHECKPOINT_DONE, completed_at_ms(checkpoint), place, level)
        verified = checkpoint.verified
        if verified is not None:
            readings.moment(meters.CHECKPOINT_VERIFIED_AT, verified.at_ms, place, level)
            readings.add(meters.CHECKPOINT_DAMAGED, len(verified.damage), place, level)


def read_metastores(readings: MeterReadings, place: str, services: Sequence[SeenMetastore]) -> None:
    """Add the metastore backups of one folder."""
    for service in services:
        labels = (place, service.service_id)
        readings.add(meters.METASTORE_COMMANDS, service.commands, *labels)
        readings.moment(meters.METASTORE_WRITTEN, service.written_ms, *labels)
        readings.add(meters.METASTORE_FOLLOWED, service.followed, *labels)
        behind = service.behind
        readings.moment(
            meters.METASTORE_BEHIND, None if behind is None else behind.since_ms, *labels
        )
        readings.moment(meters.METASTORE_ALARM, service.alarm_ms, *labels)


T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class MonitoredSource(Generic[T_co]):
    """A source with its last look."""

    kind: str
    """``cluster``, ``backups``."""
    place: str
    """Its address; empty for the cluster."""
    looked: Figure[T_co]
    every_ms: int
    """How long it takes from one look to the end of the next."""

    def fresh(self, now_ms: int) -> T_co | None:
        """What was read, if the last look succeeded and is recent."""
        value = self.looked.value
        stale = self.looked.stale(now_ms, self.every_ms)
        return None if stale or isinstance(value, Unknown) else value

    @property
    def trouble(self) -> str:
        """Why the last look failed; empty if it did not."""
        reason = self.looked.failed or self.looked.value
        if not isinstance(reason, Unknown):
            return ""
        return f"{f'{self.kind} {self.place}'.strip()}: {reason.reason}"


@dataclass(frozen=True, slots=True)
class Looks:
    """The last look at every source."""

    cluster: MonitoredSource[IncidentFigures]
    health: Health = field(default_factory=Health)
    """Read with the cluster."""
    ends: MonitoredSource[LiveEnds] | None = None
    """Where the backed-up topics end; None where no place of backups is watched."""
    backups: tuple[MonitoredSource[LocationHeld], ...] = ()
    jobs: tuple[SeenJob, ...] = ()
    """The jobs of this machine, as just read."""
    checkpoints: tuple[MonitoredSource[tuple[StoredCheckpoint, ...]], ...] = ()
    metastores: tuple[MonitoredSource[tuple[SeenMetastore, ...]], ...] = ()

    @property
    def sources(self) -> Iterator[MonitoredSource[object]]:
        """Every source."""
        yield self.cluster
        if self.ends is not None:
            yield self.ends
        yield from (*self.backups, *self.checkpoints, *self.metastores)

    def down(self, now_ms: int) -> list[MonitoredSource[object]]:
        """The sources without a recent look that succeeded."""
        return [source for source in self.sources if source.fresh(now_ms) is None]

    def answer(self, now_ms: int, version: str) -> bytes:
        """Everything that is known and fresh at *now_ms*, in Prometheus's text format."""
        readings = MeterReadings()
        readings.add(meters.BUILD, 1, version)
        for source in self.sources:
            labels = (source.kind, source.place)
            readings.add(meters.UP, source.fresh(now_ms) is not None, *labels)
            if known(source.looked.value):
                readings.moment(meters.LOOKED, source.looked.read_at_ms, *labels)
        incident = self.cluster.fresh(now_ms)
        if incident is not None:
            read_incident(readings, incident)
            read_health(readings, self.health)
        ends = None if self.ends is None else self.ends.fresh(now_ms)
        for place, held in _fresh(self.backups, now_ms):
            read_place(readings, place, held, self.jobs, ends or NOT_ASKED)
        read_jobs(readings, self.jobs)
        for place, checkpoints in _fresh(self.checkpoints, now_ms):
            read_store(readings, place, checkpoints)
        for place, services in _fresh(self.metastores, now_ms):
            read_metastores(readings, place, services)
        return readings.exposition()


def _fresh(sources: tuple[MonitoredSource[T], ...], now_ms: int) -> Iterator[tuple[str, T]]:
    for source in sources:
        value = source.fresh(now_ms)
        if value is not None:
            yield source.place, value


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
        # A source whose looks take long is not stale while a look is under way.
        every_ms = int((took + rest) * 1000)
        before = self.source
        every_ms = max(int(self._seconds * 1000), every_ms)
        self.source = MonitoredSource(before.kind, before.place, before.looked, every_ms)
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


class MonitoringWatch:
    """Looks at a cluster and at places of backups; `close` ends every wait."""

    def __init__(
        self,
        access: ReadAccess,
        places: MonitoredPlaces,
        seconds: float,
        report: Reported,
        gone: Collection[int] = (),
        seen: Callable[[Incident], object] = lambda _: None,
    ) -> None:
        """Look at each source every so many *seconds*; asks nobody yet.

        *seen* gets each step of the cluster's reading.
        """
        self._access, self._seconds = access, seconds
        self._report, self._seen = report, seen
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
        looks: list[_Looking[Any]] = [self._cluster, *self._checkpoints, *self._metastores]
        if self._backups.standing.places:
            looks.append(self._ends)
        for looking in looks:
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
                self._seen(incident)
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
