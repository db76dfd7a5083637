"""Finds the part of a log folder that the leader of its partition lacks.

The comparison is by leader epochs, as brokers truncate: both logs are the same up to the lower end
offset of their highest common epoch. If the divergence is unknown, the whole log is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path

from breakglass.services.divergence.log_source import LogSource, open_log
from breakglass.services.divergence.replica_source import parting
from breakglass.services.divergence.source import Reading, UnreadableRange
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import by_leader
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    PartitionState,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.rescue.broker_folder import EPOCHS, ReplicaFolder
from breakglass.services.regular_file import open_regular

DEPTH = 64
"""The number of epochs that the leader is asked for."""
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LeaderReach:
    """How far the leader has the log of a folder."""

    partition: TopicPartition
    until: int | None
    """The offset from which the log must be saved; None: the whole log must be saved."""
    why: str = ""
    """Why the whole log must be saved."""
    parts: int | None = None
    """Where the logs diverge by their leader epochs, even if the leader's log begins later."""
    begins: int | None = None
    """Where the leader's log begins; None if that was not read."""


def kept_by_leaders(
    client: ReadClient,
    replicas: Sequence[ReplicaFolder],
    log_ends: dict[TopicPartition, int],
    deadline: Deadline,
) -> Iterator[LeaderReach]:
    """How far the current leaders have the logs of *replicas*, which end at *log_ends*.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
    """
    topics = sorted({replica.partition.topic for replica in replicas})
    states = (
        {state.partition: state for state in client.partitions(topics, deadline)} if topics else {}
    )
    wanted = [states[replica.partition] for replica in replicas if replica.partition in states]
    leaders: dict[TopicPartition, _Leader | Unknown] = {}
    for leader, led in by_leader(wanted).items():
        leaders.update(_of_leader(client, leader, [states[name] for name in led], deadline))
    for replica in replicas:
        name = replica.partition
        yield _kept(replica, states.get(name), leaders.get(name), log_ends[name])


def _kept(
    replica: ReplicaFolder,
    state: PartitionState | None,
    theirs: _Leader | Unknown | None,
    log_end: int,
) -> LeaderReach:
    partition = replica.partition
    if state is None:
        return LeaderReach(partition, None, "the cluster does not have it, or does not show it")
    if theirs is None:
        return LeaderReach(partition, None, "no broker leads it")
    if replica.topic_id != state.topic_id:
        return LeaderReach(partition, None, "the cluster's topic of that name is another one")
    if isinstance(theirs, Unknown):
        return LeaderReach(partition, None, theirs.reason)
    ours = written_epochs(replica.path, log_end)
    if isinstance(ours, Unknown):
        return LeaderReach(partition, None, ours.reason, None, theirs.start)
    until = parting(ours, theirs.history) if log_end else 0
    if ours.ranges and theirs.start > ours.ranges[0].start:
        why = f"b{state.leader} begins later, at {theirs.start}"
        return LeaderReach(partition, None, why, until, theirs.start)
    why = "" if until is not None else "they have no epoch in common"
    return LeaderReach(partition, until, why, until, theirs.start)


@dataclass(frozen=True, slots=True)
class _Leader:
    history: EpochHistory
    start: int


def _of_leader(
    client: ReadClient, leader: int, led: Sequence[PartitionState], deadline: Deadline
) -> dict[TopicPartition, _Leader | Unknown]:
    """The logs of *leader* for the partitions of *led*; a few requests for all together."""
    reader = client.replicas_on(leader)
    names = [state.partition for state in led]
    try:
        readings = reader.read({state.partition: state.topic_id for state in led}, deadline)
        reader.deepen(names, DEPTH, deadline)
    except BreakglassError as error:
        return dict.fromkeys(names, Unknown(str(error)))
    found: dict[TopicPartition, _Leader | Unknown] = {}
    for name in names:
        start, history = readings[name].log_start, reader.history(name)
        if isinstance(history, Unknown):
            found[name] = history
        else:
            found[name] = start if isinstance(start, Unknown) else _Leader(history, start)
    return found


def epochs_of_batches(log: LogSource, start: int, end: int) -> EpochHistory:
    """The leader epochs that the batches of *log* name, of those from *start* to *end*."""
    starts: list[tuple[int, int]] = []
    for batch in log.whole_batches(start, Reading()):
        if isinstance(batch, UnreadableRange) or batch.header.base_offset >= end:
            continue
        epoch = batch.header.leader_epoch
        if not starts or starts[-1][0] != epoch:
            starts.append((epoch, max(start, batch.header.base_offset)))
    return EpochHistory(ranges_of(starts, end), start)


def written_epochs(folder: Path, log_end: int) -> EpochHistory | Unknown:
    """The leader epochs of the log in *folder*, from its checkpoint file.

    As brokers read it: what the file has at or past *log_end* was lost with the log's tail. Unknown
    if the file is not that of the log's batches: a power cut may have taken its last entries.
    """
    try:
        with open_regular(folder / EPOCHS) as file:
            lines = file.read(MAX_BYTES).decode("ascii").splitlines()
        # Kafka makes the file empty, and reads it as one without entries.
        version, count, *entries = lines or ("0", "0")
        starts = [tuple(map(int, line.split())) for line in entries]
    except (OSError, ValueError):
        return Unknown(f"{EPOCHS} in its folder cannot be read")
    rising = all(start < other for start, other in pairwise(starts))
    if version != "0" or int(count) != len(starts) or not rising:
        return Unknown(f"{EPOCHS} in its folder is damaged")
    if not starts:
        # It is like that beside a log that never had a record (R31).
        empty = EpochHistory((), 0)
        return Unknown(f"{EPOCHS} in its folder names no epoch") if log_end else empty
    ranges = ranges_of(starts, log_end)
    try:
        agrees = all(map(partial(_is_of_batches, open_log(folder.name, folder)), ranges))
    except BreakglassError as error:
        return Unknown(str(error))
    if not agrees:
        return Unknown(f"{EPOCHS} in its folder is not that of the log's batches")
    return EpochHistory(ranges, starts[0][1])


def _is_of_batches(log: LogSource, written: EpochRange) -> bool:
    """Whether the first and the last batch of the range have its epoch: epochs rise along a log."""
    first, last = max(written.start, log.extent.start), written.end - 1

    def epochs(start: int) -> Iterator[int]:
        for batch in log.whole_batches(start, Reading()):
            if isinstance(batch, UnreadableRange):
                continue
            if batch.header.base_offset > last:
                return
            yield batch.header.leader_epoch

    # Where the last batch is gone by compaction, those before it in its segment are read.
    segment = log.segments[log.first_needed(last)].base_offset
    at_last = [*islice(epochs(last), 1)] or epochs(max(first, segment))
    return all(epoch == written.epoch for epoch in chain(islice(epochs(first), 1), at_last))


def ranges_of(starts: Sequence[tuple[int, ...]], log_end: int) -> tuple[EpochRange, ...]:
    """The epochs that begin at *starts*, each an epoch and an offset."""
    ends = [*(min(start, log_end) for _, start in starts[1:]), log_end]
    return tuple(
        EpochRange(epoch, start, end)
        for (epoch, start), end in zip(starts, ends, strict=True)
        if start < end
    )
