"""Every metric of `breakglass serve metrics`: its name, its labels, and what its figure means.

A metric is only written where its figure is known: what could not be read has no sample, and never
the sample 0. Moments are in seconds of Unix time, so that a file that nobody writes any more shows
its age.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from breakglass.services.model import Unknown

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
PREFIX = "breakglass_"


@dataclass(frozen=True, slots=True)
class ExportedMetric:
    """One metric."""

    short_name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that Prometheus stores."""
        return f"{PREFIX}{self.short_name}"


_SOURCE = ("source", "place")
_TOPIC = ("place", "topic")
_SERVICE = ("place", "service")

BUILD = ExportedMetric("build_info", "The release that exports; always 1.", ("version",))
UP = ExportedMetric(
    "source_up", "Whether the last look at the source succeeded, and is recent.", _SOURCE
)
LOOKED = ExportedMetric(
    "source_last_success_timestamp_seconds", "When the source was last read.", _SOURCE
)

CLUSTER = ExportedMetric("cluster_info", "The cluster that is watched; always 1.", ("cluster_id",))
PARTITIONS = ExportedMetric("partitions", "Partitions of the cluster.")
OFFLINE = ExportedMetric("offline_partitions", "Partitions without a leader.")
VERDICTS = ExportedMetric(
    "offline_partitions_by_verdict",
    "Offline partitions by verdict; `unjudged`: their replicas have not been read yet.",
    ("verdict",),
)
LOSS = ExportedMetric(
    "loss_at_risk_records",
    "Records that the replicas that answer have, and that the proposed elections would lose.",
)
LOSS_UNKNOWN = ExportedMetric(
    "loss_unknown_partitions",
    "Offline partitions whose loss is unknown, or for which no leader is proposed.",
)
UNREAD = ExportedMetric(
    "unread_records", "Records known to be in no log that could be read: at least so many."
)
EVIDENCE = ExportedMetric(
    "evidence_timestamp_seconds", "When the oldest evidence about an offline partition was read."
)
COSTLY = ExportedMetric(
    "costly_elections_unacknowledged",
    "Elections that were seen to cost records, and that no operator has acknowledged.",
)
UNDER_MIN = ExportedMetric(
    "under_min_isr_partitions", "Partitions with a leader and too small an ISR."
)
MIN_UNKNOWN = ExportedMetric(
    "under_min_isr_unjudged_partitions",
    "Under-replicated partitions whose min.insync.replicas could not be read.",
)
UNDER_REPLICATED = ExportedMetric(
    "under_replicated_partitions", "Partitions with a leader and a replica that is not in sync."
)
MOVING = ExportedMetric("reassigning_partitions", "Partitions that are being moved.")
BROKERS = ExportedMetric(
    "brokers", "Brokers that the cluster knows, or that replicas are assigned to."
)
FENCED = ExportedMetric("fenced_brokers", "Brokers that the controller has fenced.")
SILENT = ExportedMetric("silent_brokers", "Brokers that do not answer the exporter.")
OFFLINE_DIRS = ExportedMetric(
    "offline_log_dirs", "Log directories that their brokers took offline."
)
QUORUM = ExportedMetric("quorum_has_leader", "Whether the controllers have a leader.")
MISSING_ACLS = ExportedMetric("missing_acls", "Rights that this user lacks to read all evidence.")

BACKUP_TOPICS = ExportedMetric("backup_topics", "Backed-up topics by state.", ("place", "state"))
BACKUP_COMMIT = ExportedMetric(
    "backup_commit_timestamp_seconds", "When the topic's backup was last committed.", _TOPIC
)
BACKUP_LAG = ExportedMetric(
    "backup_lag_offsets", "Offsets of the topic that are not in its backup yet.", _TOPIC
)
BACKUP_VERIFIED = ExportedMetric("backup_verified", "Whether the last commit was verified.", _TOPIC)
BACKUP_VERIFIED_AT = ExportedMetric(
    "backup_verified_timestamp_seconds", "When the topic's backup was last verified.", _TOPIC
)
BACKUP_LOST = ExportedMetric(
    "backup_lost_offsets", "Offsets that are missing for an unexpected reason.", _TOPIC
)
JOBS = ExportedMetric(
    "backup_jobs", "Jobs of this machine that have reported.", ("place", "kind", "life")
)
JOB_BEHIND = ExportedMetric(
    "backup_job_behind_timestamp_seconds",
    "Since when a continuous job is behind; absent where no job is.",
    ("place", "kind"),
)

CHECKPOINTS = ExportedMetric(
    "checkpoints", "Checkpoints by level and state.", ("place", "level", "state")
)
CHECKPOINT_DONE = ExportedMetric(
    "checkpoint_completed_timestamp_seconds",
    "When the newest completed checkpoint of the level was completed.",
    ("place", "level"),
)
CHECKPOINT_VERIFIED_AT = ExportedMetric(
    "checkpoint_verified_timestamp_seconds",
    "When the newest completed checkpoint of the level was last verified.",
    ("place", "level"),
)
CHECKPOINT_DAMAGED = ExportedMetric(
    "checkpoint_damaged_partitions",
    "Partitions of that checkpoint in which the verification found damage.",
    ("place", "level"),
)

METASTORE_COMMANDS = ExportedMetric(
    "metastore_backup_commands", "Commands in the backup.", _SERVICE
)
METASTORE_WRITTEN = ExportedMetric(
    "metastore_backup_timestamp_seconds", "When the backup was last written.", _SERVICE
)
METASTORE_FOLLOWED = ExportedMetric(
    "metastore_backup_followed", "Whether a process follows the topic now.", _SERVICE
)
METASTORE_BEHIND = ExportedMetric(
    "metastore_backup_behind_timestamp_seconds",
    "Since when the following process is behind; absent where it is not.",
    _SERVICE,
)
METASTORE_ALARM = ExportedMetric(
    "metastore_backup_alarm_timestamp_seconds",
    "When the last alarm was raised; absent a day later.",
    _SERVICE,
)

METERS: tuple[ExportedMetric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, ExportedMetric)
)


class MeterReadings:
    """The samples of one answer, in the order of `METERS`."""

    def __init__(self) -> None:
        self._families: dict[ExportedMetric, GaugeMetricFamily] = {}

    def add(self, meter: ExportedMetric, value: float | Unknown | None, *labels: str) -> None:
        """Add a sample, unless the figure is unknown or there is none."""
        if value is None or isinstance(value, Unknown):
            return
        family = self._families.get(meter)
        if family is None:
            family = GaugeMetricFamily(meter.name, meter.help, labels=meter.labels)
            self._families[meter] = family
        family.add_metric(labels, float(value))

    def moment(self, meter: ExportedMetric, at_ms: int | Unknown | None, *labels: str) -> None:
        """Add a moment, given in milliseconds of Unix time."""
        self.add(meter, at_ms / 1000 if isinstance(at_ms, int) else at_ms, *labels)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; the client library calls this."""
        return [self._families[meter] for meter in METERS if meter in self._families]

    def exposition(self) -> bytes:
        """All samples in Prometheus's text format, version 0.0.4."""
        return generate_latest(self)
