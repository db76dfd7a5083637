"""What the entries of a bundle have, as values that are written and read as JSON.

The entries of a bundle, one class each: what a line of the entry has, or all of it.

Shared values (`services.model`) are written as they are: partitions.jsonl has a `PartitionState`
on each line, evidence.jsonl a `PartitionEvidence`. A field that changes makes a new version of the
format (`services.bundle.archive`).

Records of diverging replicas in a bundle: where and what they are, and contents on request.

Without a request, keys, values and header values are left out: their sizes stay, and marks by
which the records of two replicas can be compared. Names of headers stay.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import blake2b

from breakglass.services.divergence.entry import (
    Content,
    HeaderList,
    Item,
    Keep,
    RecordEntry,
    UnreadableRange,
)
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.health.backups import BackupGlance
from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir
from breakglass.services.kafka.cluster.settings import ShownSetting
from breakglass.services.model import TopicPartition, TopicSettings, Unknown
from breakglass.services.record_batches import Marker, TimestampType
from breakglass.services.snapshot import ClusterDescription, Quorum
from breakglass.services.topic_backup.catalog import TopicStatus

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
"""As the state folder has it (services/incident/elections_seen.py)."""
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


MOST_CONTENT = 8 * 1024
"""Bytes that are kept of a key, a value or a header's value; no reader asks for more."""
MOST_NAME = 256
"""Characters that are kept of a header's name."""
MOST_CONTENTS = 1024 * 1024
"""Bytes that are kept of the contents of one replica: the next record after them is left out."""
READING = Keep(value=64 * 1024, headers=50)
WITHHELD = "[redacted]"
OUTSIDE = "the bundle has other offsets of this replica, from {:,} to {:,}"


@dataclass(frozen=True, slots=True)
class ContentRules:
    """Which contents of records go into a bundle, and what is blacked out in them."""

    topics: Sequence[str] = ()
    """Patterns (``orders*``) of topics whose contents are asked for; empty: none."""
    redacted: Sequence[str] = ()
    """Patterns of names, in lower case: JSON fields and headers whose values are withheld. Where
    there is a pattern, contents that are no JSON object or list are withheld whole, because no
    rule can be applied to them."""
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """For the marks; never written."""

    def wants(self, topic: str) -> bool:
        return any(fnmatchcase(topic, pattern) for pattern in self.topics)

    def content(self, content: Content | None, *, wanted: bool) -> BundledContent | None:
        """*content* as it goes into the bundle; its bytes only where it is *wanted*."""
        if content is None:
            return None
        whole = content.digest or content.kept
        mark = blake2b(whole, digest_size=16, key=self.salt).hexdigest()
        kept = self._redacted(content) if wanted else None
        return BundledContent(content.size, mark, None if kept is None else kept[:MOST_CONTENT])

    def withholds(self, name: str) -> bool:
        return any(fnmatchcase(name.lower(), pattern) for pattern in self.redacted)

    def _redacted(self, content: Content) -> bytes | None:
        if not self.redacted:
            return content.kept
        if len(content.kept) < content.size:
            return None
        try:
            document = json.loads(content.kept)
            named = isinstance(document, dict | list)
            return json.dumps(self._blackened(document)).encode() if named else None
        except (ValueError, RecursionError):
            return None

    def _blackened(self, value: object) -> object:
        if isinstance(value, dict):
            return {
                name: WITHHELD if self.withholds(name) else self._blackened(item)
                for name, item in value.items()
            }
        return list(map(self._blackened, value)) if isinstance(value, list) else value


def bundled(
    partition: TopicPartition, broker: int, within: Extent, items: Iterator[Item], most: int,
    rules: ContentRules,
) -> BundledRecords:  # fmt: skip
    """At most *most* of *items*, which are all that a replica has *within* an extent."""
    wanted = rules.wants(partition.topic)
    records: list[BundledRecord] = []
    gaps: list[BundledGap] = []
    end, kept = within.end, 0
    for item in items:
        if len(records) + len(gaps) >= most or kept > MOST_CONTENTS:
            end = item.offset if isinstance(item, RecordEntry) else item.start
            break
        if isinstance(item, UnreadableRange):
            gaps.append(BundledGap(item.start, item.end, item.reason))
        else:
            records.append(_record(item, wanted, rules))
            # Bytes of contents and names of headers that are kept of record.
            record = records[-1]
            contents = (record.key, record.value, *(header.value for header in record.headers))
            names = sum(len(header.name) for header in record.headers)
            kept += names + sum(
                len(content.kept or b"") for content in contents if content is not None
            )
    return BundledRecords(partition, broker, within.start, end, tuple(records), tuple(gaps))


def _record(entry: RecordEntry, wanted: bool, rules: ContentRules) -> BundledRecord:
    return BundledRecord(
        entry.offset,
        entry.epoch,
        entry.timestamp_type,
        entry.timestamp,
        rules.content(entry.key, wanted=wanted),
        rules.content(entry.value, wanted=wanted),
        tuple([_header(name, value, wanted, rules) for name, value in entry.headers.kept]),
        entry.headers.count,
        entry.marker,
        entry.producer_id,
        entry.transactional,
    )


def _header(
    name: Content, value: Content | None, wanted: bool, rules: ContentRules
) -> BundledHeader:
    text = name.kept.decode("utf-8", "backslashreplace")
    shown = wanted and not rules.withholds(text)
    return BundledHeader(text[:MOST_NAME], rules.content(value, wanted=shown))


@dataclass(frozen=True, slots=True)
class BundledSource:
    """One side of a comparison, by the records of a bundle (a `divergence.source.Source`)."""

    name: str
    extent: Extent
    """Of the replica's log, most of which the bundle does not have."""
    held: BundledRecords | None
    """None: the bundle has no record of this replica."""

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)`` that the bundle has; the rest is unreadable."""
        asked = self.extent.within(start, end)
        held = self.held
        if held is None:
            if asked.start < asked.end:
                yield UnreadableRange(asked.start, asked.end, "the bundle has none of its records")
            return
        inside = asked.within(held.start, held.end)
        why = OUTSIDE.format(held.start, held.end)
        if asked.start < min(held.start, asked.end):
            yield UnreadableRange(asked.start, min(held.start, asked.end), why)
        yield from _items(held, inside, reading)
        if max(held.end, asked.start) < asked.end:
            yield UnreadableRange(max(held.end, asked.start), asked.end, why)

    def raw_log(self, start: int, end: int, reading: Reading) -> None:
        """None: a bundle has no batches."""


def _items(held: BundledRecords, asked: Extent, reading: Reading) -> Iterator[Item]:
    entries: list[tuple[int, Item]] = [
        (record.offset, _entry(record))
        for record in held.records
        if asked.start <= record.offset < asked.end
    ]
    gaps: list[tuple[int, Item]] = [
        (
            max(gap.start, asked.start),
            UnreadableRange(max(gap.start, asked.start), min(gap.end, asked.end), gap.reason),
        )
        for gap in held.gaps
        if gap.start < asked.end and asked.start < gap.end
    ]
    for _, item in sorted([*entries, *gaps], key=lambda pair: pair[0]):
        reading.go_on()
        yield item


def _entry(record: BundledRecord) -> RecordEntry:
    headers = tuple(
        [
            (Content(name, len(name)), _content(header.value))
            for header in record.headers
            for name in [header.name.encode("utf-8", "backslashreplace")]
        ]
    )
    return RecordEntry(
        record.offset,
        record.epoch,
        record.timestamp_type,
        record.timestamp,
        _content(record.key),
        _content(record.value),
        HeaderList(headers, record.header_count),
        record.marker,
        record.producer_id,
        record.transactional,
    )


def _content(content: BundledContent | None) -> Content | None:
    """What is shown of it; its mark takes the place of the digest, so that equal is equal."""
    if content is None:
        return None
    return Content(content.kept or b"", content.size, content.mark.encode())
