"""The partitions that checkpoints are of, as a cluster has them: `seams.Topics` on Kafka."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from breakglass.services.checkpoint.interfaces import Scope
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC, Control, take_record
from breakglass.services.checkpoint.kafka.control_log import (
    ensure_control,
    read_control,
    write_control,
)
from breakglass.services.checkpoint.kafka.epochs import Histories, epochs_before, read_histories
from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs, read_ends, read_logs, settled
from breakglass.services.checkpoint.kafka.scanning import committed_log
from breakglass.services.checkpoint.kafka.stamps import marker_headers, stamp_of
from breakglass.services.checkpoint.protocol.participant import Acknowledge, CheckpointState
from breakglass.services.checkpoint.protocol.values import NO_CHECKPOINT
from breakglass.services.checkpoint.store.documents import (
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import EvidenceChanged, ReadOnly, UsageError
from breakglass.services.kafka.marker_client import MarkerClient, Small
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.model import PartitionState, TopicPartition

ASK_SECONDS = 30.0
TAIL = 100
"""Offsets at the end of a log that are looked at for ids."""


@dataclass(frozen=True, slots=True)
class WantedCheckpoint:
    """What a checkpoint is to be of."""

    level: Level
    topics: tuple[str, ...]
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    control_topic: str = CONTROL_TOPIC


class KafkaTopics:
    """`seams.Topics` of what is *wanted*; a coordinated checkpoint takes *markers*."""

    def __init__(
        self, client: ReadClient, markers: MarkerClient | None, wanted: WantedCheckpoint
    ) -> None:
        self._client, self._markers, self._wanted = client, markers, wanted
        self._noted: set[int] = set()

    def scope(self) -> Scope:
        """The partitions now, with the ends of their logs: nothing of the checkpoint is there yet.

        Raises:
            UsageError: no topic is named, or one does not exist.
            ClusterError, Unreachable: the cluster cannot be asked.
        """
        if not self._wanted.topics:
            raise UsageError("No topic is named: give --topics.")
        deadline = Deadline.after(ASK_SECONDS)
        logs, ends = read_ends(self._client, self._wanted.topics, deadline)
        found = subjects(logs.states)
        return Scope(
            self._wanted.level,
            found,
            self._wanted.groups,
            {one.number: ends[of(one)] for one in found},
            self._client.describe(deadline).cluster_id,
            incarnation(logs.states),
        )

    def latest_id(self) -> int:
        """The greatest id that was ever taken here, by the control topic and by the logs (H4).

        The logs may hold greater ones, as of another control topic.

        Raises:
            ClusterError, Unreachable: they cannot be read.
        """
        deadline = Deadline.after(ASK_SECONDS)
        control = read_control(self._client, self._wanted.control_topic, deadline) or Control()
        known = control.latest_id > NO_CHECKPOINT
        in_logs = until(deadline, lambda: self._id_at_the_ends(deadline, quietest_alone=known))
        return max(control.latest_id, in_logs)

    def _id_at_the_ends(self, deadline: Deadline, *, quietest_alone: bool) -> int:
        """That which the last records carry; of each topic's quietest partition, or of all.

        A checkpoint has a marker in every partition: it is the last record of a quiet one.
        """
        logs = read_logs(self._client, self._wanted.topics, deadline)
        starts, ends = logs.starts(deadline), logs.stable_ends(deadline)
        if quietest_alone:
            ends = quietest(starts, ends)
        tails = {one: max(starts[one], end - TAIL) for one, end in ends.items()}
        return max(_ids_between(logs, tails, ends), default=NO_CHECKPOINT)

    def start(self, id: int, partitions: Sequence[NumberedPartition]) -> Mapping[int, Acknowledge]:
        """Write the checkpoint's markers; for a vector, read where the logs end.

        Raises:
            EvidenceChanged: topics were deleted, or have other partitions by now.
            NotAuthorized, ClusterError: the cluster refuses.
        """
        deadline = Deadline.after(ASK_SECONDS)
        logs = read_logs(self._client, self._wanted.topics, deadline)
        wanted = {of(one): one.number for one in partitions}
        states = [one for one in logs.states if one.partition in wanted]
        if len(states) < len(wanted):
            raise EvidenceChanged(
                "partitions are gone since the checkpoint was asked for: take one with a new id"
            )
        if self._wanted.level is Level.COORDINATED:
            markers = self._armed()
            self._note(markers, id, deadline)
            key = b"breakglass-checkpoint-%d-%s" % (id, uuid4().hex.encode())
            marker = Small(key, b"", marker_headers(id))
            positions = markers.write(states, marker, deadline)
        else:
            _, ends = read_ends(self._client, self._wanted.topics, deadline)
            positions = {one: ends[one] for one in wanted}
        return {
            wanted[one]: Acknowledge(id, CheckpointState(id, position), started=True)
            for one, position in positions.items()
        }

    def passed(self, take: TakeDocument, positions: Mapping[int, int]) -> int:
        """The greatest id that records before the markers at *positions* carry; 0 where none does.

        Of a greater one than the take's, its partition has never seen the take's own. Logs are
        read only where the control topic knows of a greater one.

        Raises:
            ClusterError, Unreachable: they cannot be read, as where a transaction stays open.
        """
        if take.level is not Level.COORDINATED:
            return NO_CHECKPOINT
        deadline = Deadline.after(ASK_SECONDS)
        control = read_control(self._client, self._wanted.control_topic, deadline) or Control()
        if control.latest_id <= take.id:
            return NO_CHECKPOINT
        logs, _ = settled(self._client, self._wanted.topics, deadline)
        floors = {of(one): take.floors[one.number] for one in take.partitions}
        markers = {of(one): positions[one.number] for one in take.partitions}
        return max(_ids_between(logs, floors, markers), default=NO_CHECKPOINT)

    def epochs(
        self, partitions: Sequence[NumberedPartition], positions: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Leader epochs that wrote the offsets before *positions*, by number, where known (H10).

        Raises:
            ClusterError, Unreachable: the leaders cannot be asked.
        """
        deadline = Deadline.after(ASK_SECONDS)
        wanted = {of(one): positions[one.number] - 1 for one in partitions}
        histories = until(deadline, lambda: self._histories(wanted, deadline))
        return epochs_before({of(one): one.number for one in partitions}, positions, histories)

    def _histories(self, wanted: Ends, deadline: Deadline) -> Histories:
        logs = read_logs(self._client, self._wanted.topics, deadline)
        return read_histories(logs, wanted, deadline)

    def _armed(self) -> MarkerClient:
        if self._markers is None:
            raise ReadOnly("a coordinated checkpoint writes into its topics: add --write")
        return self._markers

    def _note(self, markers: MarkerClient, id: int, deadline: Deadline) -> None:
        """Write the id into the control topic, before any record carries it."""
        if id in self._noted:
            return
        topic = self._wanted.control_topic
        ensure_control(self._client, markers.topics, topic, deadline)
        record = take_record(id, now_ms())
        write_control(self._client, markers, topic, record, deadline)
        self._noted.add(id)


def subjects(states: Iterable[PartitionState]) -> tuple[NumberedPartition, ...]:
    """The partitions numbered from 1, in the order of topics and partitions."""
    ordered = sorted(one.partition for one in states)
    return tuple(
        NumberedPartition(number, one.topic, one.partition)
        for number, one in enumerate(ordered, start=1)
    )


def of(subject: NumberedPartition) -> TopicPartition:
    """The partition that a subject is."""
    return TopicPartition(subject.topic, subject.partition)


def incarnation(states: Iterable[PartitionState]) -> str:
    """Tells these topics from others of the same names, as before a restore (H12)."""
    ids: set[UUID] = {one.topic_id for one in states}
    text = ",".join(sorted(one.hex for one in ids))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def quietest(starts: Ends, ends: Ends) -> Ends:
    """The end of that partition of each topic whose log is the shortest, and not empty."""
    shortest: dict[str, TopicPartition] = {}
    for one in sorted(ends, key=lambda one: (ends[one] - starts[one], one)):
        if ends[one] > starts[one]:
            shortest.setdefault(one.topic, one)
    return {one: ends[one] for one in shortest.values()}


def _ids_between(logs: Logs, starts: Ends, ends: Ends) -> Iterator[int]:
    """The ids that records with offsets in ``[start, end)`` carry, if they carry any."""
    for partition, end in ends.items():
        if starts[partition] >= end:
            continue
        log = committed_log(logs, partition)
        for batch in log.batches(starts[partition], end):
            for record in batch.records(log.where):
                stamp = stamp_of(record.headers)
                if stamp is not None and record.offset < end:
                    yield stamp.sn
