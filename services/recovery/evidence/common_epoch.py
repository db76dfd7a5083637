"""Which partitions need longer epoch histories before their replicas can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from breakglass.services.model import (
    EpochHistory,
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    known,
)


def without_common_epoch(partitions: Iterable[PartitionEvidence]) -> frozenset[TopicPartition]:
    """Partitions where two replicas share no known epoch and one could tell more."""
    return frozenset(one.partition for one in partitions if _lonely(one))


def _lonely(evidence: PartitionEvidence) -> bool:
    """Neighbours that each share an epoch have a common past with all the others too."""
    read = [log for log in evidence.replicas if known(log.epochs) and not log.empty]
    return any(not _meet(one, other) for one, other in pairwise(read))


def _meet(one: ReplicaLog, other: ReplicaLog) -> bool:
    if not _epochs(one).isdisjoint(_epochs(other)):
        return True
    return _read_to_its_start(one) and _read_to_its_start(other)


def _epochs(log: ReplicaLog) -> frozenset[int]:
    ranges = log.epochs.ranges if isinstance(log.epochs, EpochHistory) else ()
    return frozenset(held.epoch for held in ranges)


def _read_to_its_start(log: ReplicaLog) -> bool:
    return (
        isinstance(log.epochs, EpochHistory)
        and isinstance(log.log_start, int)
        and log.epochs.complete_from <= log.log_start
    )
