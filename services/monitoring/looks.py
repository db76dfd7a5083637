"""The last look at every source, and the answer that it makes. Pure.

An answer has the figures of sources whose last look succeeded and is recent. Of any other source it
only says that the source is down, and when it was last read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from breakglass.services.backup_watch.job import SeenJob
from breakglass.services.backup_watch.live_ends import NOT_ASKED, LiveEnds
from breakglass.services.backup_watch.location import LocationHeld
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Health
from breakglass.services.metastore.glance import SeenMetastore
from breakglass.services.model import Unknown, known
from breakglass.services.monitoring import meters
from breakglass.services.monitoring.backup_readings import (
    read_jobs,
    read_metastores,
    read_place,
    read_store,
)
from breakglass.services.monitoring.cluster_readings import (
    IncidentFigures,
    read_health,
    read_incident,
)
from breakglass.services.monitoring.meters import MeterReadings

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint

T = TypeVar("T")
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
        self._read_backups(readings, now_ms)
        return readings.exposition()

    def _read_backups(self, readings: MeterReadings, now_ms: int) -> None:
        ends = None if self.ends is None else self.ends.fresh(now_ms)
        for place, held in _fresh(self.backups, now_ms):
            read_place(readings, place, held, self.jobs, ends or NOT_ASKED)
        read_jobs(readings, self.jobs)
        for place, checkpoints in _fresh(self.checkpoints, now_ms):
            read_store(readings, place, checkpoints)
        for place, services in _fresh(self.metastores, now_ms):
            read_metastores(readings, place, services)


def _fresh(sources: tuple[MonitoredSource[T], ...], now_ms: int) -> Iterator[tuple[str, T]]:
    for source in sources:
        value = source.fresh(now_ms)
        if value is not None:
            yield source.place, value
