"""Looks at canned sources: an incident, backups in every state, checkpoints, a metastore."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

from breakglass.services.backup_watch.location import Life
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import VerifiedDocument
from breakglass.services.health.counts import BrokerHealth, Voice
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Health, Monitor
from breakglass.services.incident.elections_seen import ElectionSeen, Observation
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir
from breakglass.services.lag import Behind
from breakglass.services.metastore.glance import SeenMetastore
from breakglass.services.model import TopicPartition
from breakglass.services.monitoring.watching import IncidentFigures, Looks, MonitoredSource
from tests.kit.incidents import READ_AT_MS, every_verdict
from tests.screens.backups.held import ENDS, MAIN, every_state, job, seen
from tests.unit.checkpoint.store.stores import completed

T = TypeVar("T")
EVERY_MS = 15_000
NOW_MS = READ_AT_MS + 10_000
"""Ten seconds after every source was read."""
STORE, METASTORE = "/checkpoints", "/metastore"
ELECTION = ElectionSeen(
    TopicPartition("carts", 9), "id", 4, 7, READ_AT_MS, 0, True, 2, 150, 150, False, ()
)
Samples = dict[str, dict[tuple[str, ...], float]]


def samples_of(answer: bytes) -> Samples:
    """Every sample of *answer*: by name, then by the values of its labels in order of name."""
    found: Samples = {}
    for family in text_string_to_metric_families(answer.decode()):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def incident() -> Incident:
    """Every verdict, an election that cost records, a missing ACL."""
    return replace(
        every_verdict(),
        observations=(Observation(ELECTION, "me@here"),),
        missing_acls=("READ on topic users",),
    )


def health_of(incident: Incident) -> Health:
    """What a monitor makes of *incident*, with brokers that were asked: b3 is silent."""
    monitor = Monitor(now_ms=lambda: READ_AT_MS)
    found = monitor.seen(incident.snapshot)
    assert isinstance(found.brokers.value, tuple)
    brokers = tuple(_asked(broker) for broker in found.brokers.value)
    return replace(found, brokers=Figure(brokers, READ_AT_MS))


def _asked(broker: BrokerHealth) -> BrokerHealth:
    if broker.id == 3:
        return replace(broker, voice=Voice("connection refused", READ_AT_MS))
    dirs = (BrokerLogDir("/data/a"), BrokerLogDir("/data/b", "KAFKA_STORAGE_ERROR"))
    return replace(
        broker, voice=Voice("", READ_AT_MS, Figure(dirs[: 1 + broker.id % 2], READ_AT_MS))
    )


def looks(folder: Path) -> Looks:
    """All sources, read at `READ_AT_MS`; *folder* is for a store of checkpoints."""
    store = BackupStore(str(folder))
    for number in (1, 2):
        completed(store, number)
    (newest, *older) = store.all()
    nodes = {part.number: part.counting.id.node for part in newest.partitions if part.counting}
    newest = replace(newest, read_last=VerifiedDocument(READ_AT_MS, nodes, 3, 60, {2: "a hole"}))
    metastore = SeenMetastore(
        "default_", 12, READ_AT_MS, True, Behind(READ_AT_MS - 1_000, "b1 is down"), 5_000, "alarm"
    )
    return Looks(
        cluster=_source("cluster", "", IncidentFigures.of(incident())),
        health=health_of(incident()),
        ends=_source("topic_ends", "", ENDS),
        backups=(_source("backups", MAIN, every_state()),),
        jobs=(
            seen(job()),
            seen(job("restore", behind="b2 hangs", behind_since_ms=READ_AT_MS), Life.SILENT),
        ),
        checkpoints=(_source("checkpoints", STORE, (newest, *older)),),
        metastores=(_source("metastore", METASTORE, (metastore,)),),
    )


def _source(kind: str, place: str, value: T) -> MonitoredSource[T]:
    return MonitoredSource(kind, place, Figure(value, READ_AT_MS), EVERY_MS)
