"""The partitions of checkpoints in a Kafka cluster (`coordinator.Topics`) and their epochs.

An `ordered` checkpoint reads offsets and ends stage by stage (`protocol.lineage`): within a stage,
the offsets first. High watermarks are read, so applications have to produce with ``acks=all``: only
then is an acknowledged output below its log's end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from uuid import UUID, uuid4

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import (
    Control,
    marker_headers,
    stamp_of,
    take_record,
)
from breakglass.services.checkpoint.kafka.logs import (
    Ends,
    Logs,
    committed_log,
    ensure_control,
    read_control,
    read_ends,
    read_logs,
    settled,
    write_control,
)
from breakglass.services.checkpoint.kafka.owners import read_named_groups
from breakglass.services.checkpoint.promises import WantedCheckpoint, require_declared
from breakglass.services.checkpoint.protocol.lineage import (
    FlowCycle,
    GroupFlow,
    ReadingStage,
    diverged,
    reading_order,
)
from breakglass.services.checkpoint.protocol.values import (
    NO_CHECKPOINT,
    Acknowledge,
    CheckpointState,
)
from breakglass.services.checkpoint.store.documents import (
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
    TransactionFloors,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import ClusterError, EvidenceChanged, ReadOnly, Refused, TimedOut
from breakglass.services.kafka.marker_client import MarkerClient, Small
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import EpochHistory, PartitionState, TopicPartition, Unknown
from breakglass.services.topic_backup.summary import EpochStart


def stages_of(
    flows: Sequence[GroupFlow], readers: Iterable[str], topics: Sequence[str]
) -> tuple[ReadingStage, ...]:
    """The order of reading; *readers* may read every topic, and write into none.

    Raises Refused: the flows have a cycle, which the message names.
    """
    ends = [GroupFlow(reader, tuple(topics)) for reader in readers]
    found = reading_order([*flows, *ends], topics)
    if isinstance(found, FlowCycle):
        raise Refused(
            f"the flows lead back to where they begin ({found}): a cycle has no order of reading "
            "that loses nothing"
        )
    return found


def read_in_order(
    client: ReadClient, stages: Iterable[ReadingStage], readers: Collection[str], deadline: Deadline
) -> tuple[dict[str, Ends], Ends]:
    """Offsets by group, and ends, read in the order of *stages*: none is older than its cause.

    A partition in which a group has committed nothing counts from the start of its log, for a
    restored group would begin there by its own setting, perhaps at the end. Of *readers* that is
    so only in topics that they read.

    Raises ClusterError, NotAuthorized, Unreachable: something cannot be read.
    """
    offsets: dict[str, Ends] = {}
    ends: Ends = {}
    for stage in stages:
        for flow in stage.flows:
            found = _offsets(client, flow, deadline, all_inputs=flow.group not in readers)
            offsets.setdefault(flow.group, {}).update(found)
        if stage.topics:
            ends |= read_ends(client, stage.topics, deadline)[1]
    return offsets, ends


def _offsets(client: ReadClient, flow: GroupFlow, deadline: Deadline, *, all_inputs: bool) -> Ends:
    logs = read_logs(client, flow.inputs, deadline)
    partitions = [state.partition for state in logs.states]
    committed = read_named_groups(client, [flow.group], partitions, deadline)[flow.group]
    topics = {partition.topic for partition in (partitions if all_inputs else committed)}
    missing = [one for one in partitions if one not in committed and one.topic in topics]
    if not missing:
        return committed
    starts = until(deadline, lambda: read_logs(client, flow.inputs, deadline).starts(deadline))
    return {**committed, **{partition: starts[partition] for partition in missing}}


Histories = Mapping[TopicPartition, EpochHistory | Unknown]
NO_LEADER = Unknown("it has no leader")
"""In place of the history of a partition without a leader."""
DEPTHS = (64, 1024)
"""How many epochs are read back, in growing steps, until they cover an offset."""


def read_histories(
    logs: Logs, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> Histories:
    """The leader epochs that wrote *offsets*, back to the offset given for each partition.

    Raises Unreachable: a leader does not answer.
    """
    led: dict[int, dict[TopicPartition, UUID]] = {}
    for state in logs.states:
        if offsets.get(state.partition, -1) >= 0 and state.leader is not None:
            led.setdefault(state.leader, {})[state.partition] = state.topic_id
    found: dict[TopicPartition, EpochHistory | Unknown] = {}
    for leader, partitions in led.items():
        replicas = logs.client.replicas_on(leader)
        replicas.read(partitions, deadline)
        for depth in DEPTHS:
            # Those whose history does not reach back far enough yet.
            histories = {partition: replicas.history(partition) for partition in partitions}
            short = [
                one
                for one, history in histories.items()
                if isinstance(history, EpochHistory) and history.complete_from > offsets[one]
            ]
            replicas.deepen(short, depth, deadline)
        found.update({partition: replicas.history(partition) for partition in partitions})
    return found


def require_same_log(
    partition: TopicPartition, wanted: Iterable[EpochStart], history: EpochHistory | Unknown
) -> None:
    """Return if the log is still the log from which records of *wanted* were read (H10).

    Raises:
        ClusterError: it was truncated and written again.
        TimedOut: its leader did not answer with its *history*.
    """
    if isinstance(history, Unknown):
        raise TimedOut(
            f"the leader epochs of {partition} cannot be read ({history.reason}): try again",
            history.reason,
        )
    reason = diverged(partition, wanted, history)
    if reason:
        raise ClusterError(reason)


def epochs_before(
    numbered: Mapping[TopicPartition, int], ends: Mapping[int, int], histories: Histories
) -> dict[int, int]:
    """The leader epochs that wrote the offsets before *ends*, by number, where known."""
    found = {
        number: history.epoch_at(ends[number] - 1)
        for one, number in numbered.items()
        if number in ends and isinstance(history := histories.get(one), EpochHistory)
    }
    return {number: epoch for number, epoch in found.items() if epoch is not None}


TAIL = 100
"""Offsets at the end of a log that are searched for ids."""


class KafkaTopics:
    """`coordinator.Topics` of what is *wanted*; a coordinated checkpoint requires *markers*."""

    def __init__(
        self, client: ReadClient, markers: MarkerClient | None, wanted: WantedCheckpoint
    ) -> None:
        self._client, self._markers, self._wanted = client, markers, wanted
        self._control_topic = wanted.how.control_topic
        self._noted: set[int] = set()
        self._offsets: Mapping[str, Ends] = {}
        """Of an ordered checkpoint."""
        self._floors: TransactionFloors | None = None

    def scope(self) -> TakeDocument:
        """The current partitions and log ends, read before the checkpoint writes anything.

        Raises:
            UsageError: no topic is named, or a topic does not exist.
            Refused: the flows have no order.
            ClusterError, Unreachable: the cluster cannot be asked.
        """
        self._wanted.require_coherent()
        deadline = Deadline.after(patience.COMMAND)
        logs, ends = read_ends(self._client, self._wanted.topics, deadline)
        found = subjects(logs.states)
        transactions = None
        numbers = {partition.topic_partition: partition.number for partition in found}
        if self._wanted.level is Level.TRANSACTIONAL:
            from breakglass.services.checkpoint.kafka.transactions import read_floors

            transactions = read_floors(self._client, logs, self._wanted.writing, numbers, deadline)
            ends = {place: transactions.stable[number] for place, number in numbers.items()}
        level = self._wanted.level
        assert level is not None
        return TakeDocument(
            NO_CHECKPOINT,
            level,
            found,
            request="",
            created_at_ms=0,
            cluster_id=self._client.describe(deadline).cluster_id,
            incarnation=incarnation(logs.states),
            groups=self._wanted.groups,
            floors={number: ends[partition] for partition, number in numbers.items()},
            external=self._wanted.external,
            transactions=transactions,
            flows=self._wanted.flows,
        )

    def latest_id(self) -> int:
        """The greatest id that was ever taken here, by the control topic and by the logs (H4).

        The logs may contain greater ids, for example from another control topic.

        Raises ClusterError, Unreachable: they cannot be read.
        """
        deadline = Deadline.after(patience.COMMAND)
        control = read_control(self._client, self._control_topic, deadline) or Control()

        def read() -> int:
            logs = read_logs(self._client, self._wanted.topics, deadline)
            starts, ends = logs.starts(deadline), logs.stable_ends(deadline)
            if control.latest_id > NO_CHECKPOINT:
                # A checkpoint has a marker in every partition: the last record of a quiet one.
                ends = quietest(starts, ends)
            tails = {one: max(starts[one], end - TAIL) for one, end in ends.items()}
            return max(_ids_between(logs, tails, ends), default=NO_CHECKPOINT)

        return max(control.latest_id, until(deadline, read))

    def start(self, id: int, partitions: Sequence[NumberedPartition]) -> Mapping[int, Acknowledge]:
        """Write the checkpoint's markers, or read the log ends, in order for an ordered one.

        Raises:
            EvidenceChanged: topics were deleted, or have other partitions now.
            Refused: the promise of a coordinated checkpoint cannot hold; no marker was written.
            NotAuthorized, ClusterError: the cluster refuses.
        """
        deadline = Deadline.after(patience.COMMAND)
        logs = read_logs(self._client, self._wanted.topics, deadline)
        wanted = {partition.topic_partition: partition.number for partition in partitions}
        states = [state for state in logs.states if state.partition in wanted]
        if len(states) < len(wanted):
            raise EvidenceChanged(
                "partitions are gone since the checkpoint was asked for: take one with a new id"
            )
        if self._wanted.level is Level.COORDINATED:
            markers = self._markers
            if markers is None:
                raise ReadOnly("a coordinated checkpoint writes into its topics: add --write")
            until(deadline, lambda: self._look_first(deadline))
            self._note(markers, id, deadline)
            key = b"breakglass-checkpoint-%d-%s" % (id, uuid4().hex.encode())
            marker = Small(key, b"", marker_headers(id))
            positions = markers.write(states, marker, deadline)
        elif self._wanted.level is Level.TRANSACTIONAL:
            from breakglass.services.checkpoint.kafka.transactions import read_window

            seconds = self._wanted.how.drain_seconds
            window = read_window(self._client, self._wanted.writing, wanted, seconds)
            self._floors = window.floors
            positions = {partition: window.ends[partition] for partition in wanted}
        elif self._wanted.level is Level.ORDERED:
            groups, topics = self._wanted.groups, self._wanted.topics
            readers = [name for name, policy in groups.items() if policy is GroupPolicy.READER]
            stages = stages_of(self._wanted.flows, readers, topics)
            self._offsets, ends = read_in_order(self._client, stages, readers, deadline)
            positions = {partition: ends[partition] for partition in wanted}
        else:
            _, ends = read_ends(self._client, self._wanted.topics, deadline)
            positions = {partition: ends[partition] for partition in wanted}
        return {
            wanted[one]: Acknowledge(id, CheckpointState(id, position), started=True)
            for one, position in positions.items()
        }

    def _look_first(self, deadline: Deadline) -> None:
        """Return if the promise can hold: a marker stays, and is read by every application (H17).

        Raises: Refused; and as `read_evidence`.
        """
        from breakglass.services.checkpoint.kafka.evidence import read_evidence, require_uncompacted

        wanted = self._wanted
        found = read_evidence(self._client, wanted.topics, self._control_topic, deadline)
        require_declared(wanted, found)
        require_uncompacted(self._client.sender, wanted.topics, deadline)

    def offsets(self, partitions: Sequence[NumberedPartition]) -> Mapping[str, Mapping[int, int]]:
        """The offsets that `start` read for an ordered checkpoint, by group and number."""
        numbers = {partition.topic_partition: partition.number for partition in partitions}
        return {
            group: {numbers[one]: offset for one, offset in offsets.items() if one in numbers}
            for group, offsets in self._offsets.items()
        }

    def transactions(self) -> TransactionFloors | None:
        """The floors that `start` read for a transactional checkpoint, after those of `scope`."""
        return self._floors

    def passed(self, take: TakeDocument, positions: Mapping[int, int]) -> int:
        """The greatest id that records before the markers at *positions* carry; 0 if none.

        If that id is greater than the take's, its partition has never seen the take's id. Logs are
        read only if the control topic contains a greater id.

        Raises:
            ClusterError, Unreachable: they cannot be read, for example because a transaction stays
                open.
        """
        if take.level is not Level.COORDINATED:
            return NO_CHECKPOINT
        deadline = Deadline.after(patience.COMMAND)
        control = read_control(self._client, self._control_topic, deadline) or Control()
        if control.latest_id <= take.id:
            return NO_CHECKPOINT
        logs, _ = settled(self._client, self._wanted.topics, deadline)
        markers = {partition: positions[number] for partition, number in take.numbers.items()}
        return max(_ids_between(logs, take.floors_of_logs, markers), default=NO_CHECKPOINT)

    def epochs(
        self, partitions: Sequence[NumberedPartition], positions: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Leader epochs that wrote the offsets before *positions*, by number, where known (H10).

        Raises ClusterError, Unreachable: the leaders cannot be asked.
        """
        deadline = Deadline.after(patience.COMMAND)
        wanted = {
            partition.topic_partition: positions[partition.number] - 1 for partition in partitions
        }

        def read() -> Histories:
            logs = read_logs(self._client, self._wanted.topics, deadline)
            return read_histories(logs, wanted, deadline)

        histories = until(deadline, read)
        return epochs_before(
            {partition.topic_partition: partition.number for partition in partitions},
            positions,
            histories,
        )

    def _note(self, markers: MarkerClient, id: int, deadline: Deadline) -> None:
        """Write the id to the control topic, before any record carries the id."""
        if id in self._noted:
            return
        topic = self._control_topic
        ensure_control(self._client, markers.topics, topic, deadline)
        record = take_record(id, now_ms())
        write_control(self._client, markers, topic, record, deadline)
        self._noted.add(id)


def subjects(states: Iterable[PartitionState]) -> tuple[NumberedPartition, ...]:
    """The partitions numbered from 1, in the order of topics and partitions."""
    ordered = sorted(state.partition for state in states)
    return tuple(
        NumberedPartition(number, one.topic, one.partition)
        for number, one in enumerate(ordered, start=1)
    )


def incarnation(states: Iterable[PartitionState]) -> str:
    """Distinguishes these topics from earlier ones of the same names, as after a restore (H12)."""
    ids: set[UUID] = {state.topic_id for state in states}
    text = ",".join(sorted(id_.hex for id_ in ids))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def quietest(starts: Ends, ends: Ends) -> Ends:
    """For each topic, the end of its shortest log that is not empty."""
    shortest: dict[str, TopicPartition] = {}
    for end in sorted(ends, key=lambda partition: (ends[partition] - starts[partition], partition)):
        if ends[end] > starts[end]:
            shortest.setdefault(end.topic, end)
    return {partition: ends[partition] for partition in shortest.values()}


def _ids_between(logs: Logs, starts: Ends, ends: Ends) -> Iterator[int]:
    for partition, end in ends.items():
        if starts[partition] >= end:
            continue
        log = committed_log(logs, partition)
        for batch in log.batches(starts[partition], end):
            for record in batch.records(log.where):
                stamp = stamp_of(record.headers)
                if stamp is not None and record.offset < end:
                    yield stamp.sn
