"""Which part of a log folder its partition's leader does not hold: the rest of it is safe there.

By leader epochs, as brokers truncate: the logs are one up to where the highest epoch that both
wrote ends first. Wherever that cannot be told, the whole log is saved: to know less must never
mean to save less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from uuid import UUID

from breakglass.services.divergence.replica_epochs import parting
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    PartitionState,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.rescue.broker_folder import ReplicaFolder
from breakglass.services.regular_file import open_regular

CHECKPOINT = "leader-epoch-checkpoint"
DEPTH = 64
"""Epochs that are asked for of the leader."""
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LeaderReach:
    """How far a leader holds what a folder holds."""

    partition: TopicPartition
    until: int | None
    """From here on it is not known to; None: the whole log is to be saved."""
    why: str = ""
    """Why it is the whole log."""


def kept_by_leaders(
    client: ReadClient,
    replicas: Sequence[ReplicaFolder],
    log_ends: dict[TopicPartition, int],
    deadline: Deadline,
) -> Iterator[LeaderReach]:
    """How far the leaders of now hold what *replicas* hold, whose logs end at *log_ends*.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
    """
    topics = sorted({one.partition.topic for one in replicas})
    states = {one.partition: one for one in client.partitions(topics, deadline)}
    for replica in replicas:
        state = states.get(replica.partition)
        try:
            yield _kept(client, replica, state, log_ends[replica.partition], deadline)
        except BreakglassError as error:
            yield LeaderReach(replica.partition, None, str(error))


def _kept(
    client: ReadClient,
    replica: ReplicaFolder,
    state: PartitionState | None,
    log_end: int,
    deadline: Deadline,
) -> LeaderReach:
    partition = replica.partition
    if state is None or state.leader is None:
        return LeaderReach(partition, None, "nobody leads it")
    if replica.topic_id != state.topic_id:
        return LeaderReach(partition, None, "the cluster's topic of that name is another one")
    theirs = _of_leader(client, state.leader, partition, state.topic_id, deadline)
    ours = written_epochs(replica.path, log_end)
    for history in (theirs, ours):
        if isinstance(history, Unknown):
            return LeaderReach(partition, None, history.reason)
    assert isinstance(theirs, _Leader)
    assert isinstance(ours, EpochHistory)
    if ours.ranges and theirs.start > ours.ranges[0].start:
        return LeaderReach(partition, None, f"b{state.leader} begins later, at {theirs.start}")
    until = parting(ours, theirs.history)
    return LeaderReach(
        partition, until, "" if until is not None else "they have no epoch in common"
    )


@dataclass(frozen=True, slots=True)
class _Leader:
    history: EpochHistory
    start: int


def _of_leader(
    client: ReadClient, leader: int, partition: TopicPartition, topic_id: UUID, deadline: Deadline
) -> _Leader | Unknown:
    reader = client.replicas_on(leader)
    told = reader.read({partition: topic_id}, deadline)[partition]
    reader.deepen([partition], DEPTH, deadline)
    history = reader.history(partition)
    if isinstance(history, Unknown):
        return history
    return (
        told.log_start if isinstance(told.log_start, Unknown) else _Leader(history, told.log_start)
    )


def written_epochs(folder: Path, log_end: int) -> EpochHistory | Unknown:
    """The leader epochs of the log in *folder*, as its broker noted them."""
    try:
        with open_regular(folder / CHECKPOINT) as file:
            lines = file.read(MAX_BYTES).decode("ascii").splitlines()
        version, count, *entries = lines
        starts = [tuple(map(int, line.split())) for line in entries]
    except (OSError, ValueError):
        return Unknown(f"{CHECKPOINT} in its folder cannot be read")
    rising = all(one < other for one, other in pairwise(starts))
    if version != "0" or int(count) != len(starts) or not starts or not rising:
        return Unknown(f"{CHECKPOINT} in its folder is damaged")
    ends = [*(start for _, start in starts[1:]), log_end]
    ranges = tuple(
        EpochRange(epoch, start, end)
        for (epoch, start), end in zip(starts, ends, strict=True)
        if start < end
    )
    return EpochHistory(ranges, starts[0][1])
