"""What leader epochs prove of two replicas: up to where their histories part, the logs are one.

An epoch has one leader, and a follower appends only where its log agrees with the leader's: two
logs that hold the same epoch hold the same records before (log matching).
"""

from __future__ import annotations

from uuid import UUID

from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.source import Extent
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import EpochHistory, Unknown

DEPTH = 64
"""Epochs that are asked for of either replica."""
NO_ID = UUID(int=0)


def proven_by_epochs(
    client: ReadClient, left: ReplicaSource, right: ReplicaSource, deadline: Deadline
) -> Extent | None:
    """The offsets that both replicas hold alike by log matching; None where that is not known.

    Raises:
        Unreachable: a broker does not tell its epochs.
    """
    ours, theirs = (_history(client, one, deadline) for one in (left, right))
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown):
        return None
    parted = parting(ours, theirs)
    start = max(left.extent.start, right.extent.start)
    return Extent(start, parted) if parted is not None and start < parted else None


def parting(ours: EpochHistory, theirs: EpochHistory) -> int | None:
    """Where the highest epoch that both wrote ends first; None without a common one."""
    ends = {one.epoch: one.end for one in ours.ranges}
    common = [one for one in theirs.ranges if one.epoch in ends]
    return min(ends[common[-1].epoch], common[-1].end) if common else None


def _history(
    client: ReadClient, source: ReplicaSource, deadline: Deadline
) -> EpochHistory | Unknown:
    reader = client.replicas_on(source.broker)
    reader.read({source.partition: NO_ID}, deadline)
    reader.deepen([source.partition], DEPTH, deadline)
    return reader.history(source.partition)
