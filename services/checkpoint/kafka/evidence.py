"""What logs, groups and settings show of who takes part, and what refuses a checkpoint.

Checks of a take: every group and record is accounted for, and none can be compacted away.

Compaction may remove records that the checkpoint needs before they are copied.

Lists the groups of every kind on a checkpoint's topics (H10).

A group is on a topic if it has committed there, if its members are assigned there, or if it is a
share group with progress there. Groups that this user may not describe stay invisible, and so do
consumers that belong to no group.

Reads how groups commit their offsets, in the last part of ``__consumer_offsets``.

Reads the last part of each log: who writes it, and whether records say what led to them.

The prefix of a checkpoint is looked at even where nothing is written while it is taken: a topic
without the participant's headers would otherwise pass in a quiet moment (H10).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import Control, stamp_of
from breakglass.services.checkpoint.kafka.logs import (
    Ends,
    Logs,
    committed_log,
    read_control,
    read_logs,
)
from breakglass.services.checkpoint.kafka.owners import read_ids
from breakglass.services.checkpoint.kafka.topics import of
from breakglass.services.checkpoint.promises import flows_elsewhere, group_faults, unstamped_topics
from breakglass.services.checkpoint.protocol.flows import (
    CheckpointEvidence,
    Committing,
    GroupEvidence,
    GroupFlow,
    TopicEvidence,
    WriterKind,
)
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level, TakeDocument
from breakglass.services.errors import BreakglassError, ClusterError, Refused, TimedOut
from breakglass.services.kafka.cluster.group_offsets import (
    GroupOffsets,
    groups_unread,
    read_committed,
)
from breakglass.services.kafka.cluster.topic_settings import TOPIC_RESOURCE
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC, offline_offsets
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.broker_errors import cluster_error
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.pipeline.committed_log import CommittedBatch, CommittedLog
from breakglass.services.recovery.internal_topics.records import StateKind, change_of
from breakglass.services.recovery.internal_topics.wire import NotThatRecord, SchemaReader
from breakglass.services.topic_backup.batches import BatchHeader
from breakglass.services.topic_backup.consumer_offsets import log_of
from breakglass.services.topic_backup.record import Record


class _Asked(Protocol):
    """What a checkpoint is asked to contain, before and after it is stored."""

    @property
    def level(self) -> Level: ...
    @property
    def groups(self) -> Mapping[str, GroupPolicy]: ...
    @property
    def external(self) -> tuple[str, ...]: ...
    @property
    def flows(self) -> tuple[GroupFlow, ...]: ...


def require_declared(take: _Asked, evidence: CheckpointEvidence) -> None:
    """Return if the take's promise can hold by the *evidence* (H10).

    Every group on the topics has to be saved or declared, whatever its kind: a group that is
    missing would be restored without offsets. The prefixes of the logs have to say what led to
    their records, even if nothing was written while the checkpoint was taken.

    Raises:
        Refused: a group is not named, or a record has an unknown cause.
    """
    faults = list(group_faults(evidence.groups, take.groups))
    if take.level in (Level.COORDINATED, Level.VERIFIED):
        inside = [topic for topic in evidence.topics if topic.topic not in take.external]
        faults += unstamped_topics(inside)
    if take.level is Level.ORDERED:
        faults += flows_elsewhere(evidence.groups, take.flows)
    if faults:
        raise Refused(f"unverifiable: {faults[0]}")


POLICY, LAG = "cleanup.policy", "min.compaction.lag.ms"
NEVER = 2**63 - 1
"""Milliseconds: the minimum compaction lag of a topic whose compaction is suspended."""


def require_uncompacted(sender: Sender, topics: Sequence[str], deadline: Deadline) -> None:
    """Return if no record of *topics* can be compacted away now.

    A shorter lag proves nothing: brokers measure it from the timestamp that the producer has set.

    Raises:
        Refused: a topic can be compacted now.
        ClusterError, NotAuthorized, Unreachable: the settings cannot be read.
    """
    for topic in sorted(compacted(sender, topics, deadline)):
        raise Refused(
            f"unverifiable: topic {topic} is compacted, which may remove what the checkpoint "
            "needs: take it by `breakglass checkpoint take --hold-retention`, serve with that "
            "option, or take it at --level vector"
        )


def compacted(sender: Sender, topics: Sequence[str], deadline: Deadline) -> frozenset[str]:
    """Those of *topics* from which records may be compacted away now. Raises as above."""
    # The two settings of each topic, from whatever source.
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    request = settings_request(TOPIC_RESOURCE, topics, [POLICY, LAG])
    answer = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline)
    return frozenset(
        topic
        for topic, settings in {
            result.resource_name: _values(result) for result in answer.results
        }.items()
        if "compact" in settings.get(POLICY, "") and int(settings.get(LAG, "0")) < NEVER
    )


def _values(result: Any) -> Mapping[str, str]:
    if result.error_code:
        name = result.resource_name
        doing = f"reading whether topic {name} is compacted"
        raise cluster_error(result.error_code, doing, f"DESCRIBE_CONFIGS on topic {name}")
    found = {config.name: config.value for config in result.configs if config.value is not None}
    if POLICY not in found:
        raise ClusterError(
            f"topic {result.resource_name} does not say whether it is compacted: try again"
        )
    return found


LAST_COMMITS = 1_000
"""Offsets at the end of a partition of that topic that are searched for commits."""


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of one group in the last part of its log."""

    plain: int = 0
    transactional: int = 0
    producers: frozenset[int] = frozenset()
    """Producer ids of its transactions."""

    @property
    def way(self) -> Committing:
        """How the group commits."""
        if self.plain:
            return Committing.PLAIN
        return Committing.TRANSACTIONAL if self.transactional else Committing.UNKNOWN


def read_commits(
    client: ReadClient, groups: Collection[str], deadline: Deadline
) -> Mapping[str, Commits]:
    """The commits of *groups* in the last part of ``__consumer_offsets``.

    A group is absent if no commit of it was seen, for example because this user may not read the
    topic.
    """
    if not groups:
        return {}
    found: dict[str, Commits] = {}
    try:
        count = len(client.partitions((OFFSETS_TOPIC,), deadline))
    except BreakglassError:
        return found
    by_partition: dict[TopicPartition, set[str]] = {}
    for group in groups if count else ():
        by_partition.setdefault(log_of(group, OFFSETS_TOPIC, count), set()).add(group)
    for partition, wanted in sorted(by_partition.items()):
        # How a group commits is unknown if its partition cannot be read: no promise is built on it.
        with suppress(BreakglassError):
            found |= _read(client, partition, wanted, deadline)
    return found


def _read(
    client: ReadClient, partition: TopicPartition, groups: Set[str], deadline: Deadline
) -> dict[str, Commits]:
    """The commits of *groups*, all in *partition*; a short wait for an open transaction's end."""
    settled = deadline.sooner(patience.GROUPS)

    def read() -> dict[str, Commits]:
        found: dict[str, Commits] = {}
        states = client.partitions((OFFSETS_TOPIC,), deadline)
        state = next((state for state in states if state.partition == partition), None)
        if state is None or state.leader is None:
            raise TimedOut(f"{partition} is offline: run `breakglass triage`", "no leader")
        ends = Logs(client, (state,))
        start, end = ends.starts(deadline)[partition], ends.stable_ends(deadline)[partition]
        log = CommittedLog(client.sender, state.leader, partition)
        for group, header in _commits(log, max(start, end - LAST_COMMITS), end):
            if group in groups:
                found[group] = _counted(found.get(group, Commits()), header)
        open_after = ends.high_watermarks(deadline)[partition] > end
        if open_after and groups - found.keys() and not settled.passed:
            raise TimedOut(f"a transaction stays open in {partition}: try again", "open")
        return found

    return until(deadline, read)


def _commits(log: CommittedLog, start: int, end: int) -> Iterator[tuple[str, BatchHeader]]:
    """Each batch with offsets of a group, once for each such group."""
    for batch in log.batches(start, end):
        named = {_committing(record) for record in batch.records(log.where)}
        yield from ((group, batch.header) for group in named if group is not None)


def _committing(record: Record) -> str | None:
    """The group whose offset *record* commits; None for another record."""
    try:
        change = change_of(OFFSETS_TOPIC, record)
    except NotThatRecord:
        return None
    if change is None or change.value is None or change.key.kind is not StateKind.OFFSET:
        return None
    return change.key.name


def _counted(before: Commits, header: BatchHeader) -> Commits:
    if not header.transactional:
        return Commits(before.plain + 1, before.transactional, before.producers)
    producers = before.producers | {header.producer_id}
    return Commits(before.plain, before.transactional + 1, producers)


NOT_KNOWN = "?"
CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


@dataclass(slots=True)
class _Seen:
    coordinator: int
    kind: str
    protocol: str
    state: str
    topics: set[str] = field(default_factory=set)


def read_groups(
    client: ReadClient,
    logs: Logs,
    control: Control,
    producers: Mapping[str, Collection[int]],
    deadline: Deadline,
) -> tuple[GroupEvidence, ...]:
    """The groups on the topics of *logs*, by name.

    *producers* are the producer ids of transactions in the last part of each topic: a group whose
    commits are of the same transactions writes there.

    Raises:
        ClusterError, NotAuthorized, Unreachable: a coordinator cannot be read.
    """
    partitions = [state.partition for state in logs.states]
    topics = frozenset(partition.topic for partition in partitions)
    # All brokers are read again while one of them does not answer for its groups: where that
    # broker is dead, other brokers coordinate its groups after a while.
    _require_coordinated(client, deadline)
    seen = until(deadline, lambda: _groups_now(client, partitions, topics, deadline))
    _require_coordinated(client, deadline)
    on_topics = {name: group for name, group in sorted(seen.items()) if group.topics}
    ids = frozenset(state.topic_id.hex for state in logs.states)
    noted = {group for group, topic_id, _ in control.created if topic_id in ids}
    ours = {name for name in on_topics if name in noted or _stamps(client, name, partitions)}
    commits = read_commits(client, on_topics.keys() - ours, deadline)
    return tuple(
        GroupEvidence(
            name,
            group.kind,
            group.state,
            tuple(sorted(group.topics)),
            Committing.PARTICIPANT if name in ours else commits.get(name, Commits()).way,
            _written(commits.get(name, Commits()).producers, producers),
        )
        for name, group in on_topics.items()
    )


def _stamps(client: ReadClient, group: str, partitions: Sequence[TopicPartition]) -> bool:
    deadline = Deadline.after(patience.COMMAND)
    return bool(read_ids(client.sender, group, partitions, deadline))


def _written(
    committing: Collection[int], producers: Mapping[str, Collection[int]]
) -> tuple[str, ...]:
    found = (topic for topic, writers in producers.items() if set(writers) & set(committing))
    return tuple(sorted(found))


def _require_coordinated(client: ReadClient, deadline: Deadline) -> None:
    """Raise TimedOut if groups have no coordinator, and are therefore in no list."""
    if unseen := offline_offsets(client, deadline):
        raise TimedOut(
            f"groups of {unseen[0]} cannot be read (it is offline): elect its leader, then try "
            "again",
            "it is offline",
        )


def _groups_now(
    client: ReadClient,
    partitions: Sequence[TopicPartition],
    topics: Collection[str],
    deadline: Deadline,
) -> dict[str, _Seen]:
    found: dict[str, _Seen] = {}
    for broker in client.describe(deadline).brokers:
        if broker.fenced is True:
            continue
        committed = _committed(client, broker.id, partitions, deadline)
        listed = _listed(client, broker.id, deadline)
        for partition, offsets in committed.items():
            for group in offsets.keys() & listed.keys():
                listed[group].topics.add(partition.topic)
        for name, assigned in _assigned(client, broker.id, listed, deadline):
            listed[name].topics |= assigned & set(topics)
        found |= listed
    return found


def _committed(
    client: ReadClient, broker: int, partitions: Collection[TopicPartition], deadline: Deadline
) -> GroupOffsets:
    """What the groups of *broker* have committed; the visible ones.

    Raises:
        TimedOut: it does not answer, or still loads them.
    """
    found = read_committed(client.sender, broker, frozenset(partitions), deadline)
    if found.unready:
        raise groups_unread(broker, found.unready)
    if not isinstance(found.offsets, Unknown):
        return found.offsets
    if found.hidden:
        return {}
    raise groups_unread(broker, found.offsets.reason)


def _listed(client: ReadClient, broker: int, deadline: Deadline) -> dict[str, _Seen]:
    from breakglass.services.kafka.wire.messages.reading import (
        ListGroupsRequest,
        ListGroupsResponse,
    )

    answer = client.sender.call(broker, ListGroupsRequest(), ListGroupsResponse, deadline)
    if answer.error_code:
        raise cluster_error(answer.error_code, "listing groups", "DESCRIBE on the groups")
    return {
        group.group_id: _Seen(
            broker,
            (getattr(group, "group_type", "") or NOT_KNOWN).lower(),
            group.protocol_type or "",
            getattr(group, "group_state", "") or NOT_KNOWN,
        )
        for group in answer.groups
    }


def _assigned(
    client: ReadClient, broker: int, groups: Mapping[str, _Seen], deadline: Deadline
) -> Iterator[tuple[str, set[str]]]:
    """The topics to which the members of each group are assigned, or on which it has progress."""
    by_kind: dict[str, list[str]] = {}
    for name, group in groups.items():
        by_kind.setdefault(group.kind, []).append(name)
    classic = [
        name
        for kind in (CLASSIC, NOT_KNOWN)
        for name in by_kind.get(kind, ())
        if groups[name].protocol == "consumer"
    ]
    if classic:
        yield from _classic(client, broker, classic, deadline)
    if CONSUMER in by_kind:
        yield from _consumer(client, broker, by_kind[CONSUMER], deadline)
    if SHARE in by_kind:
        yield from _share(client, broker, by_kind[SHARE], deadline)


def _classic(
    client: ReadClient, broker: int, names: Sequence[str], deadline: Deadline
) -> Iterator[tuple[str, set[str]]]:
    from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse

    request = DescribeGroupsRequest(groups=list(names))
    answer = client.sender.call(broker, request, DescribeGroupsResponse, deadline)
    for group in answer.groups:
        for member in group.members:
            yield group.group_id, assigned_topics(bytes(member.member_assignment or b""))


def assigned_topics(assignment: bytes) -> set[str]:
    """The topics of a member's *assignment* (ConsumerProtocolAssignment.json)."""
    if not assignment:
        return set()
    reader, found = SchemaReader(assignment), set()
    try:
        reader.int16()
        for _ in range(reader.count()):
            found.add(reader.required_text())
            for _ in range(reader.count()):
                reader.int32()
    except NotThatRecord:
        # Another protocol that calls itself "consumer": its commits still show its topics.
        return set()
    return found


def _consumer(
    client: ReadClient, broker: int, names: Sequence[str], deadline: Deadline
) -> Iterator[tuple[str, set[str]]]:
    from breakglass.services.kafka.wire.messages.group_details import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )

    request = ConsumerGroupDescribeRequest(
        group_ids=list(names), include_authorized_operations=False
    )
    answer = client.sender.call(broker, request, ConsumerGroupDescribeResponse, deadline)
    for group in answer.groups:
        for member in group.members:
            assigned = member.assignment.topic_partitions
            yield group.group_id, {topic.topic_name for topic in assigned}


def _share(
    client: ReadClient, broker: int, names: Sequence[str], deadline: Deadline
) -> Iterator[tuple[str, set[str]]]:
    from breakglass.services.kafka.wire.messages.group_details import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
    )

    group_class = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    request = DescribeShareGroupOffsetsRequest(
        groups=[group_class(group_id=name, topics=None) for name in names]
    )
    answer = client.sender.call(broker, request, DescribeShareGroupOffsetsResponse, deadline)
    for group in answer.groups:
        yield group.group_id, {topic.topic_name for topic in group.topics}


LAST_OFFSETS = 100
"""Offsets at the end of a log that are looked at first."""
FURTHER = 100
"""By how much more is looked at while only markers were found."""


@dataclass(slots=True)
class _Found:
    records: int = 0
    writers: set[WriterKind] = field(default_factory=set)
    outside_transactions: bool = False
    unstamped: str = ""
    producers: set[int] = field(default_factory=set)
    """Of transactions."""

    def add(self, partition: TopicPartition, batch: CommittedBatch, end: int) -> None:
        header = batch.header
        for record in batch.records(str(partition)):
            stamp = stamp_of(record.headers)
            if record.offset >= end or (stamp is not None and stamp.marker):
                continue
            self.records += 1
            self.outside_transactions |= not header.transactional
            if stamp is not None:
                self.writers.add(WriterKind.PARTICIPANT)
            else:
                self.writers.add(_writer(batch))
                self.unstamped = self.unstamped or f"{partition} at offset {record.offset}"
            if header.transactional:
                self.producers.add(header.producer_id)


def _writer(batch: CommittedBatch) -> WriterKind:
    if batch.header.transactional:
        return WriterKind.TRANSACTIONAL
    return WriterKind.IDEMPOTENT if batch.header.producer_id >= 0 else WriterKind.UNKNOWN


def read_evidence(
    client: ReadClient, topics: Sequence[str], control_topic: str, deadline: Deadline
) -> CheckpointEvidence:
    """The evidence about *topics* as they are now.

    Raises:
        UsageError: a topic does not exist.
        ClusterError, NotAuthorized, Unreachable: something cannot be read.
    """
    logs = read_logs(client, topics, deadline)
    return evidence_before(logs, logs.stable_ends(deadline), control_topic, deadline)


def evidence_of(take: TakeDocument, logs: Logs, control_topic: str) -> CheckpointEvidence | None:
    """The evidence before the floors of a take; None if it cannot be read for a vector.

    Raises:
        Refused: as `require_declared`; a vector has no such check, because it promises nothing.
        ClusterError, Unreachable: something cannot be read.
    """
    if take.level is Level.VECTOR:
        with suppress(BreakglassError):
            return _before_floors(take, logs, control_topic)
        return None
    found = _before_floors(take, logs, control_topic)
    require_declared(take, found)
    return found


def _before_floors(take: TakeDocument, logs: Logs, control_topic: str) -> CheckpointEvidence:
    deadline = Deadline.after(patience.COMMAND)
    stable = logs.stable_ends(deadline)
    floors = {of(partition): take.floors[partition.number] for partition in take.partitions}
    ends = {partition: min(floor, stable[partition]) for partition, floor in floors.items()}
    return evidence_before(logs, ends, control_topic, deadline)


def evidence_before(
    logs: Logs, ends: Ends, control_topic: str, deadline: Deadline
) -> CheckpointEvidence:
    """The evidence in the last records before *ends*, which are at most the stable ends.

    Raises: as `read_evidence`.
    """
    client, topics = logs.client, sorted({state.partition.topic for state in logs.states})
    starts = logs.starts(deadline)
    found = {topic: _Found() for topic in topics}
    for partition, end in ends.items():
        _look(logs, partition, starts[partition], end, found[partition.topic])
    control = read_control(client, control_topic, deadline) or Control()
    producers: Mapping[str, set[int]] = {topic: shown.producers for topic, shown in found.items()}
    groups = read_groups(client, logs, control, producers, deadline)
    losing = compacted(client.sender, topics, deadline)
    return CheckpointEvidence(
        tuple(
            TopicEvidence(
                topic,
                sum(partition.topic == topic for partition in ends),
                shown.records,
                tuple([kind for kind in WriterKind if kind in shown.writers]),
                not shown.unstamped,
                not shown.outside_transactions,
                shown.unstamped,
                topic in losing,
            )
            for topic, shown in found.items()
        ),
        groups,
    )


def _look(logs: Logs, partition: TopicPartition, start: int, end: int, found: _Found) -> None:
    """Add the last records before *end*; further back while there are only markers."""
    log, before, size = committed_log(logs, partition), found.records, LAST_OFFSETS
    upto = end
    while upto > start and found.records == before:
        begin = max(start, end - size)
        for batch in log.batches(begin, upto):
            found.add(partition, batch, upto)
        upto, size = begin, FURTHER * size
