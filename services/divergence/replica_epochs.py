"""Proves by leader epochs that two replicas are the same up to where their histories diverge.

An epoch has one leader, and a follower appends only where its log matches the leader's. So two
logs that contain the same epoch have the same records before it (log matching).
"""

from __future__ import annotations

from uuid import UUID

from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.source import Extent
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import EpochHistory, Unknown

DEPTH = 64
"""Number of epochs that each replica is asked for."""
NO_ID = UUID(int=0)


def proven_by_epochs(
    client: ReadClient, left: ReplicaSource, right: ReplicaSource, deadline: Deadline
) -> Extent | None:
    """The offsets at which both replicas are the same by log matching; None if not known.

    Raises:
        Unreachable: a broker does not answer for its epochs.
    """
    ours, theirs = (_history(client, source, deadline) for source in (left, right))
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown):
        return None
    parted = parting(ours, theirs)
    start = max(left.extent.start, right.extent.start)
    return Extent(start, parted) if parted is not None and start < parted else None


def parting(ours: EpochHistory, theirs: EpochHistory) -> int | None:
    """The lower end offset of the highest common epoch; None without a common epoch."""
    ends = {range_.epoch: range_.end for range_ in ours.ranges}
    common = [range_ for range_ in theirs.ranges if range_.epoch in ends]
    return min(ends[common[-1].epoch], common[-1].end) if common else None


def _history(
    client: ReadClient, source: ReplicaSource, deadline: Deadline
) -> EpochHistory | Unknown:
    reader = client.replicas_on(source.broker)
    reader.read({source.partition: NO_ID}, deadline)
    reader.deepen([source.partition], DEPTH, deadline)
    return reader.history(source.partition)
