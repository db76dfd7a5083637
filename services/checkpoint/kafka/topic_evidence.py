"""Reads the last part of each log: who writes it, and whether records say what led to them.

The prefix of a checkpoint is looked at even where nothing is written while it is taken: a topic
without the participant's headers would otherwise pass in a quiet moment (H10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.control import Control
from breakglass.services.checkpoint.kafka.control_log import read_control
from breakglass.services.checkpoint.kafka.group_evidence import read_groups
from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs, read_logs
from breakglass.services.checkpoint.kafka.scanning import committed_log
from breakglass.services.checkpoint.kafka.stamps import stamp_of
from breakglass.services.checkpoint.kafka.take_checks import compacted, require_declared
from breakglass.services.checkpoint.kafka.topics import of
from breakglass.services.checkpoint.protocol.evidence import (
    CheckpointEvidence,
    TopicEvidence,
    WriterKind,
)
from breakglass.services.checkpoint.store.documents import Level, TakeDocument
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.committed_log import CommittedBatch

LAST_OFFSETS = 100
"""Offsets at the end of a log that are looked at first."""
FURTHER = 100
"""By how much more is looked at while only markers were found."""


@dataclass(slots=True)
class _Found:
    """What batches show."""

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
                _ordered(shown.writers),
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


def _ordered(writers: Iterable[WriterKind]) -> tuple[WriterKind, ...]:
    return tuple(writer for writer in WriterKind if writer in set(writers))
