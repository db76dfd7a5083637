"""The figures of a cluster: what is offline and at risk, what its brokers are like. Pure.

Sums over 100,000 offline partitions take a tenth of a second, so they are made once for each
reading, and not for each answer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

from breakglass.services.health.brokers import BrokerHealth
from breakglass.services.health.counts import Moves, PartitionCounts
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Health
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.observations import unacknowledged
from breakglass.services.model import Unknown
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
