"""What logs, groups and settings show of who takes part, and what refuses a checkpoint (H10).

The last part of each log shows who writes it, even where nothing is written while the checkpoint is
taken: a topic without the participant's headers would otherwise pass in a quiet moment. A group is
on a topic if it has committed there, if its members are assigned there, or if it is a share group
with progress there. Groups that this user may not describe stay invisible, and so do consumers that
belong to no group. Compaction may remove records before they are copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field

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
from breakglass.services.checkpoint.promises import require_declared
from breakglass.services.checkpoint.protocol.lineage import (
    CheckpointEvidence,
    Committing,
    GroupEvidence,
    TopicEvidence,
    WriterKind,
)
from breakglass.services.checkpoint.store.documents import Level, TakeDocument
from breakglass.services.errors import BreakglassError, ClusterError, Refused, TimedOut
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    GroupOffsets,
    groups_unread,
    offline_offsets,
    read_committed,
)
from breakglass.services.kafka.cluster.settings import TOPIC_RESOURCE
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.answers import cluster_error
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicPartition, Unknown, log_of
from breakglass.services.pipeline.committed_log import CommittedBatch, CommittedLog
from breakglass.services.record_batches import BatchHeader, Record
from breakglass.services.recovery.internal_topics.records import (
    NotThatRecord,
    SchemaReader,
    StateKind,
    change_of,
)

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
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    # The two settings of each topic, from whatever source.
    request = settings_request(TOPIC_RESOURCE, topics, [POLICY, LAG])
    answer = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline)
    found: set[str] = set()
    for result in answer.results:
        name = result.resource_name
        if result.error_code:
            doing = f"reading whether topic {name} is compacted"
            raise cluster_error(result.error_code, doing, f"DESCRIBE_CONFIGS on topic {name}")
        settings = {one.name: one.value for one in result.configs if one.value is not None}
        if POLICY not in settings:
            raise ClusterError(f"topic {name} does not say whether it is compacted: try again")
        if "compact" in settings[POLICY] and int(settings.get(LAG, "0")) < NEVER:
            found.add(name)
    return frozenset(found)


LAST_COMMITS = 1_000
"""Offsets at the end of a partition of that topic that are searched for commits."""


@dataclass(slots=True)
class Commits:
    """The commits of one group in the last part of its log."""

    plain: int = 0
    transactional: int = 0
    producers: set[int] = field(default_factory=set)
    """Producer ids of its transactions."""

    def add(self, header: BatchHeader) -> None:
        self.transactional += header.transactional
        self.plain += not header.transactional
        if header.transactional:
            self.producers.add(header.producer_id)

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
        for batch in log.batches(max(start, end - LAST_COMMITS), end):
            # Each batch counts once for each group whose offsets it commits.
            for group in groups & {_committing(record) for record in batch.records(log.where)}:
                found.setdefault(group, Commits()).add(batch.header)
        open_after = ends.high_watermarks(deadline)[partition] > end
        if open_after and groups - found.keys() and not settled.passed:
            raise TimedOut(f"a transaction stays open in {partition}: try again", "open")
        return found

    return until(deadline, read)


def _committing(record: Record) -> str | None:
    """The group whose offset *record* commits; None for another record."""
    try:
        change = change_of(OFFSETS_TOPIC, record)
    except NotThatRecord:
        return None
    if change is None or change.value is None or change.key.kind is not StateKind.OFFSET:
        return None
    return change.key.name


NOT_KNOWN = "?"
CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


@dataclass(slots=True)
class _Seen:
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

    Raises ClusterError, NotAuthorized, Unreachable: a coordinator cannot be read.
    """
    partitions = [state.partition for state in logs.states]

    def require_coordinated() -> None:
        # Groups without a coordinator are in no list.
        if unseen := offline_offsets(client, deadline):
            raise TimedOut(
                f"groups of {unseen[0]} cannot be read (it is offline): elect its leader, then try "
                "again",
                "it is offline",
            )

    # All brokers are read again while one of them does not answer for its groups: where that
    # broker is dead, other brokers coordinate its groups after a while.
    require_coordinated()
    seen = until(deadline, lambda: _groups_now(client, partitions, deadline))
    require_coordinated()
    on_topics = {name: group for name, group in sorted(seen.items()) if group.topics}
    ids = frozenset(state.topic_id.hex for state in logs.states)
    ours = {group for group, topic_id, _ in control.created if topic_id in ids} & on_topics.keys()
    for name in on_topics.keys() - ours:
        if read_ids(client.sender, name, partitions, Deadline.after(patience.COMMAND)):
            ours.add(name)
    commits = read_commits(client, on_topics.keys() - ours, deadline)
    found = []
    for name, group in on_topics.items():
        own = commits.get(name, Commits())
        way = Committing.PARTICIPANT if name in ours else own.way
        writes = (topic for topic, writers in producers.items() if own.producers & set(writers))
        reads = tuple(sorted(group.topics))
        found.append(
            GroupEvidence(name, group.kind, group.state, reads, way, tuple(sorted(writes)))
        )
    return tuple(found)


def _groups_now(
    client: ReadClient, partitions: Sequence[TopicPartition], deadline: Deadline
) -> dict[str, _Seen]:
    from breakglass.services.kafka.wire.messages.reading import (
        ListGroupsRequest,
        ListGroupsResponse,
    )

    topics = {partition.topic for partition in partitions}
    found: dict[str, _Seen] = {}
    for broker in client.describe(deadline).brokers:
        if broker.fenced is True:
            continue
        committed = _committed(client, broker.id, partitions, deadline)
        answer = client.sender.call(broker.id, ListGroupsRequest(), ListGroupsResponse, deadline)
        if answer.error_code:
            raise cluster_error(answer.error_code, "listing groups", "DESCRIBE on the groups")
        listed = {
            group.group_id: _Seen(
                (getattr(group, "group_type", "") or NOT_KNOWN).lower(),
                group.protocol_type or "",
                getattr(group, "group_state", "") or NOT_KNOWN,
            )
            for group in answer.groups
        }
        for partition, offsets in committed.items():
            for group in offsets.keys() & listed.keys():
                listed[group].topics.add(partition.topic)
        for name, assigned in _assigned(client, broker.id, listed, deadline):
            listed[name].topics |= assigned & topics
        found |= listed
    return found


def _committed(
    client: ReadClient, broker: int, partitions: Collection[TopicPartition], deadline: Deadline
) -> GroupOffsets:
    """What the groups of *broker* have committed; the visible ones.

    Raises TimedOut: it does not answer, or still loads them.
    """
    found = read_committed(client.sender, broker, frozenset(partitions), deadline)
    if found.unready:
        raise groups_unread(broker, found.unready)
    if not isinstance(found.offsets, Unknown):
        return found.offsets
    if found.hidden:
        return {}
    raise groups_unread(broker, found.offsets.reason)


def _assigned(
    client: ReadClient, broker: int, groups: Mapping[str, _Seen], deadline: Deadline
) -> Iterator[tuple[str, set[str]]]:
    """The topics to which the members of each group are assigned, or on which it has progress."""
    from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse

    from breakglass.services.kafka.wire.messages.other import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
    )

    def named(*kinds: str) -> list[str]:
        return [name for name, group in groups.items() if group.kind in kinds]

    if classic := [name for name in named(CLASSIC, NOT_KNOWN) if groups[name].protocol == CONSUMER]:
        request = DescribeGroupsRequest(groups=classic)
        answer = client.sender.call(broker, request, DescribeGroupsResponse, deadline)
        for group in answer.groups:
            for member in group.members:
                yield group.group_id, assigned_topics(bytes(member.member_assignment or b""))
    if consumer := named(CONSUMER):
        request = ConsumerGroupDescribeRequest(
            group_ids=consumer, include_authorized_operations=False
        )
        answer = client.sender.call(broker, request, ConsumerGroupDescribeResponse, deadline)
        for group in answer.groups:
            for member in group.members:
                assigned = member.assignment.topic_partitions
                yield group.group_id, {topic.topic_name for topic in assigned}
    if share := named(SHARE):
        asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
        request = DescribeShareGroupOffsetsRequest(
            groups=[asked(group_id=name, topics=None) for name in share]
        )
        answer = client.sender.call(broker, request, DescribeShareGroupOffsetsResponse, deadline)
        for group in answer.groups:
            yield group.group_id, {topic.topic_name for topic in group.topics}


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
            if header.transactional:
                self.producers.add(header.producer_id)
            if stamp is not None:
                self.writers.add(WriterKind.PARTICIPANT)
                continue
            self.unstamped = self.unstamped or f"{partition} at offset {record.offset}"
            if header.transactional:
                self.writers.add(WriterKind.TRANSACTIONAL)
            else:
                idempotent = header.producer_id >= 0
                self.writers.add(WriterKind.IDEMPOTENT if idempotent else WriterKind.UNKNOWN)


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
    floors = take.floors_of_logs.items()
    ends = {partition: min(floor, stable[partition]) for partition, floor in floors}
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
        # Further back while there are only markers.
        log, shown, upto = committed_log(logs, partition), found[partition.topic], end
        size = LAST_OFFSETS
        before, start = shown.records, starts[partition]
        while upto > start and shown.records == before:
            begin = max(start, end - size)
            for batch in log.batches(begin, upto):
                shown.add(partition, batch, upto)
            upto, size = begin, FURTHER * size
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
