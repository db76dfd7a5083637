"""What a bundle has from brokers, each part read by itself: what one lacks hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from breakglass.services import patience
from breakglass.services.bundle.documents import (
    BROKERS,
    CLUSTER,
    EVIDENCE,
    GROUPS,
    PARTITIONS,
    RECORDS,
    TOPICS,
    BundledBroker,
    BundledCluster,
    BundledOffset,
    BundledRecords,
    BundledTopic,
)
from breakglass.services.bundle.making import BundleMaker
from breakglass.services.bundle.records import READING, ContentRules, bundled
from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.replicas import default_pair, face, readable
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import BreakglassError
from breakglass.services.health.answers import AT_ONCE, LANE, ask_brokers
from breakglass.services.health.counts import topics_to_judge
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import IncidentRow
from breakglass.services.kafka.cluster.group_offsets import (
    CommittedOffsets,
    describing,
    read_committed,
)
from breakglass.services.kafka.cluster.shown_settings import (
    ShownSetting,
    broker_settings_set,
    topic_settings_set,
)
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.broker_errors import unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Denied, PartitionEvidence, TopicSettings, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.snapshot import ClusterSnapshot

T = TypeVar("T")

TOPICS_A_REQUEST = 500
MOST_RECORDS = 20_000
"""Of all replicas together."""


def add_incident(maker: BundleMaker, incident: Incident, gone: Sequence[int]) -> None:
    """The metadata and the evidence, as a watch has read them."""
    snapshot = incident.snapshot
    cluster = BundledCluster(
        snapshot.description,
        snapshot.quorum,
        snapshot.observed_at_ms,
        incident.silent,
        incident.awaited,
        tuple(gone),
        incident.missing_acls,
        incident.native.designates,
        incident.native.reason,
    )
    maker.cluster_id = snapshot.cluster_id
    maker.document(CLUSTER, cluster, snapshot.observed_at_ms)
    maker.lines(PARTITIONS, snapshot.partitions, snapshot.observed_at_ms)
    read = [row for row in incident.rows if _current(row)]
    maker.lines(EVIDENCE, (row.evidence for row in read))
    if len(read) < len(incident.rows):
        missing = len(incident.rows) - len(read)
        maker.lacks(f"the evidence of {missing:,} offline partitions", "there was no time for it")
    if isinstance(snapshot.quorum, Unknown):
        maker.lacks_value("the controller quorum", snapshot.quorum)
    for broker, why in sorted(incident.silent.items()):
        maker.lacks(f"the replicas on b{broker}", why)
    for right in incident.missing_acls:
        maker.lacks_value("part of the evidence", Denied(f"this user lacks {right}", right))


def _current(row: IncidentRow) -> bool:
    """Whether the evidence is of the partition as it is now."""
    evidence = row.evidence
    return evidence is not None and evidence.state == row.state


def add_brokers(maker: BundleMaker, client: ReadClient, snapshot: ClusterSnapshot) -> None:
    """The log directories and the settings of each broker."""
    ids = [broker.id for broker in snapshot.brokers]
    deadline = Deadline.after(patience.BRIEF)

    def settings(broker: int) -> tuple[ShownSetting, ...] | Unknown:
        return _read(lambda: broker_settings_set(client.sender, broker, deadline, LANE))

    with ThreadPoolExecutor(AT_ONCE, "settings") as pool:
        asked = {broker: pool.submit(settings, broker) for broker in ids}
        told = ask_brokers(client.sender, ids, deadline)
        found = [
            BundledBroker(
                broker, told[broker].why_silent, told[broker].log_dirs, asked[broker].result()
            )
            for broker in ids
        ]
    maker.lines(BROKERS, found)
    for broker in found:
        for what, value in (("log directories", broker.log_dirs), ("settings", broker.settings)):
            if isinstance(value, Unknown):
                maker.lacks_value(f"the {what} of b{broker.id}", value)


def add_topics(maker: BundleMaker, client: ReadClient, snapshot: ClusterSnapshot) -> None:
    """The settings of each topic that somebody set."""
    names = sorted({state.partition.topic for state in snapshot.partitions})
    troubled = sorted(topics_to_judge(snapshot.partitions))
    deadline = Deadline.after(patience.COMMAND)
    decisive = {**_decisive(client, troubled, deadline), **snapshot.settings}

    def topics() -> Iterator[BundledTopic]:
        for page in _pages(names):
            found = _read(partial(topic_settings_set, client.sender, page, deadline))
            if isinstance(found, Unknown):
                maker.lacks(f"the settings of {len(page):,} topics from {page[0]}", found.reason)
                found = dict.fromkeys(page, found)
            for name in page:
                told = found[name]
                if isinstance(told, Denied):
                    maker.missing_acls.add(told.needs)
                yield BundledTopic(name, decisive.get(name), told)

    maker.lines(TOPICS, topics())


def _decisive(
    client: ReadClient, topics: Sequence[str], deadline: Deadline
) -> dict[str, TopicSettings]:
    found: dict[str, TopicSettings] = {}
    for page in _pages(topics):
        found.update(client.settings(page, deadline))
    return found


def _pages(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + TOPICS_A_REQUEST] for at in range(0, len(names), TOPICS_A_REQUEST))


def add_groups(maker: BundleMaker, client: ReadClient, snapshot: ClusterSnapshot) -> None:
    """The committed offsets of every group, from the coordinators that answer."""
    deadline = Deadline.after(patience.GROUPS)
    wanted = frozenset(state.partition for state in snapshot.partitions)
    live = snapshot.live

    def read(broker: int) -> CommittedOffsets:
        return read_committed(client.sender, broker, wanted, deadline)

    with ThreadPoolExecutor(AT_ONCE, "groups") as pool:
        answers = dict(zip(live, pool.map(read, live), strict=True))
    offsets: list[BundledOffset] = []
    for broker, answer in answers.items():
        if isinstance(answer.offsets, Unknown):
            maker.lacks_value(f"the groups that b{broker} coordinates", answer.offsets)
            continue
        for partition, committed in answer.offsets.items():
            offsets += [
                BundledOffset(group, partition.topic, partition.partition, offset)
                for group, offset in committed.items()
            ]
        if answer.unready:
            maker.lacks(f"some groups that b{broker} coordinates", answer.unready)
        for group in answer.hidden:
            hidden = Denied(f"this user lacks {describing(group)}", describing(group))
            maker.lacks_value(f"the offsets of group {group}", hidden)
    for state in snapshot.offline:
        if state.partition.topic == OFFSETS_TOPIC:
            maker.lacks(f"the groups of {state.partition}", "it is offline")
    order = sorted(offsets, key=lambda found: (found.group, found.topic, found.partition))
    maker.lines(GROUPS, order)


@dataclass(frozen=True, slots=True)
class Divergent:
    """The readable replicas of a partition, and the offset from which they may differ."""

    evidence: PartitionEvidence
    start: int

    @property
    def end(self) -> int:
        """The end of the longest log."""
        return max(log.log_end for log in readable(self.evidence) if isinstance(log.log_end, int))


def divergent(assessment: Assessment) -> Divergent | None:
    """The replicas of a partition that differ by their epochs; None where none do."""
    evidence = assessment.evidence
    pair = default_pair(evidence, assessment.best)
    if isinstance(pair, Unknown):
        return None
    best = pair[0]
    others = [log.broker for log in readable(evidence) if log.broker != best]
    facings = [face(evidence, best, other) for other in others]
    begins = [facing.begin for facing in facings if not isinstance(facing, Unknown)]
    found = Divergent(evidence, min(begins)) if begins else None
    return found if found is not None and found.start < found.end else None


def add_records(
    maker: BundleMaker, client: ReadClient, incident: Incident, rules: ContentRules, most: int
) -> None:
    """At most *most* records of each replica from where it diverges; contents by *rules*."""
    deadline = Deadline.after(patience.JOB)

    def records() -> Iterator[BundledRecords]:
        total = left = 0
        for assessment in incident.assessments():
            found = divergent(assessment)
            if found is None:
                continue
            if total >= MOST_RECORDS or deadline.passed:
                left += 1
                continue
            for line in _records(client, found, rules, most):
                total += len(line.records)
                yield line
        if left:
            maker.lacks(f"the divergent records of {left:,} partitions", "enough had been read")

    maker.lines(RECORDS, records())


def _records(
    client: ReadClient, found: Divergent, rules: ContentRules, most: int
) -> Iterator[BundledRecords]:
    evidence = found.evidence
    for log in readable(evidence):
        assert isinstance(log.log_start, int)
        assert isinstance(log.log_end, int)
        start = max(found.start, log.log_start)
        within = Extent(start, max(start, log.log_end))
        source = ReplicaSource(
            client.sender,
            log.broker,
            evidence.partition,
            Extent(log.log_start, max(log.log_start, log.log_end)),
            gapless=evidence.settings.compacted is False,
        )
        items = source.read(within.start, within.end, Reading(keep=READING))
        yield bundled(evidence.partition, log.broker, within, items, most, rules)


def _read(read: Callable[[], T]) -> T | Unknown:
    try:
        return read()
    except BreakglassError as error:
        return unread(error)
