"""What the exporter answers: the last look at each source, and its figures.

The figures of a cluster: what is offline and at risk, what its brokers are like. Pure.

Sums over 100,000 offline partitions take a tenth of a second, so they are made once for each
reading, and not for each answer.

The last look at every source, and the answer that it makes. Pure.

An answer has the figures of sources whose last look succeeded and is recent. Of any other source it
only says that the source is down, and when it was last read.

The figures of topic backups, checkpoints and metastore backups. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from breakglass.services.backup_watch.job import Life, SeenJob
from breakglass.services.backup_watch.location import (
    NOT_ASKED,
    BackupState,
    LiveEnds,
    LocationHeld,
    TopicHeld,
    running_topics,
    state_of,
)
from breakglass.services.backup_watch.watch import topic_lag
from breakglass.services.checkpoint.metrics import completed_at_ms, newest_completed
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.checkpoint.wording import level_of
from breakglass.services.checkpoint.zeebe_api import STATES
from breakglass.services.health.brokers import BrokerHealth
from breakglass.services.health.counts import Moves, PartitionCounts
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Health
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.observations import unacknowledged
from breakglass.services.metastore.glance import SeenMetastore
from breakglass.services.model import Unknown, known
from breakglass.services.monitoring import meters
from breakglass.services.monitoring.meters import MeterReadings
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.snapshot import Quorum

T = TypeVar("T")
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
        _read_brokers(readings, brokers)


def _read_brokers(readings: MeterReadings, brokers: tuple[BrokerHealth, ...]) -> None:
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
