"""The entries of a bundle, one class each: what a line of the entry has, or all of it.

Shared values (`services.model`) are written as they are: partitions.jsonl has a `PartitionState`
on each line, evidence.jsonl a `PartitionEvidence`. A field that changes makes a new version of the
format (`services.bundle.manifest`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from breakglass.services.health.backups import BackupGlance
from breakglass.services.kafka.cluster.broker_log_dirs import BrokerLogDir
from breakglass.services.kafka.cluster.shown_settings import ShownSetting
from breakglass.services.model import TopicPartition, TopicSettings, Unknown
from breakglass.services.snapshot import ClusterDescription, Quorum
from breakglass.services.topic_backup.batches import Marker
from breakglass.services.topic_backup.record import TimestampType
from breakglass.services.topic_backup.status import TopicStatus

CLUSTER = "cluster.json"
PARTITIONS = "partitions.jsonl"
EVIDENCE = "evidence.jsonl"
TOPICS = "topics.jsonl"
BROKERS = "brokers.jsonl"
GROUPS = "groups.jsonl"
BACKUPS = "backups.json"
BACKED_UP = "backup-topics.jsonl"
RECORDS = "records.jsonl"
OBSERVATIONS = "observations.jsonl"
"""As the state folder has it (services/incident/observations.py)."""
JOURNAL = "journal/"
"""What comes before the name of each journal, which is as the state folder has it."""


@dataclass(frozen=True, slots=True)
class BundledCluster:
    """The whole of cluster.json: what holds for all partitions."""

    description: ClusterDescription
    quorum: Quorum | Unknown
    observed_at_ms: int
    silent: Mapping[int, str]
    """Brokers that hold replicas and did not answer, with the reason."""
    awaited: frozenset[int]
    """Silent brokers that might still have answered."""
    gone: tuple[int, ...]
    """Brokers declared gone."""
    missing_acls: tuple[str, ...]
    designates: bool
    """The brokers take designated leaders (KIP-1275)."""
    native: str
    """Which of KIP-1275's requests were used, and why."""


@dataclass(frozen=True, slots=True)
class BundledTopic:
    """A line of topics.jsonl."""

    name: str
    decisive: TopicSettings | None
    """The settings that decide elections; None: nothing is wrong with the topic, or not read."""
    settings: tuple[ShownSetting, ...] | Unknown
    """Those that were set, on the topic or for all topics."""


@dataclass(frozen=True, slots=True)
class BundledBroker:
    """A line of brokers.jsonl."""

    id: int
    why_silent: str
    """Empty: it answered."""
    log_dirs: tuple[BrokerLogDir, ...] | Unknown
    settings: tuple[ShownSetting, ...] | Unknown


@dataclass(frozen=True, slots=True)
class BundledOffset:
    """A line of groups.jsonl: an offset that a consumer group committed."""

    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class BundledBackup:
    """A line of backup-topics.jsonl: a topic in a place of backups."""

    url: str
    """The address of the place, without a password."""
    topic: str
    generation: int
    newest: bool
    status: TopicStatus | None
    unread: str


@dataclass(frozen=True, slots=True)
class BundledPlace:
    """A place of backups."""

    url: str
    unread: Unknown | None
    """Why its topics are not known; None: they are."""
    read_at_ms: int


@dataclass(frozen=True, slots=True)
class BundledBackups:
    """The whole of backups.json."""

    places: tuple[BundledPlace, ...]
    glances: Mapping[str, BackupGlance | Unknown]
    """Kinds of backups in a line each, as the overview has them."""


@dataclass(frozen=True, slots=True)
class BundledContent:
    """A key, a value or a header's value."""

    size: int
    mark: str
    """Equal marks of one bundle are equal contents. Made with a salt that was thrown away, so that
    the contents cannot be found by trying."""
    kept: bytes | None = None
    """The beginning of the contents, where they were asked for; None: they are withheld."""


@dataclass(frozen=True, slots=True)
class BundledHeader:
    """A header of a record."""

    name: str
    value: BundledContent | None


@dataclass(frozen=True, slots=True)
class BundledRecord:
    """A record of one replica, without its contents unless they were asked for."""

    offset: int
    epoch: int | None
    timestamp_type: TimestampType
    timestamp: int | None
    key: BundledContent | None
    value: BundledContent | None
    headers: tuple[BundledHeader, ...]
    header_count: int
    marker: Marker | None
    producer_id: int
    transactional: bool


@dataclass(frozen=True, slots=True)
class BundledGap:
    """Offsets ``[start, end)`` that could not be read."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class BundledRecords:
    """A line of records.jsonl: some records of one replica, where it diverges from others."""

    partition: TopicPartition
    broker: int
    start: int
    end: int
    """All records with offsets ``[start, end)`` are here, or in the gaps."""
    records: tuple[BundledRecord, ...]
    gaps: tuple[BundledGap, ...]
