"""The partitions that a command is about, by what the cluster says of them now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import ClusterSnapshot, PartitionState, TopicPartition
from breakglass.services.recovery.triage import SNAPSHOT_SECONDS


@dataclass(frozen=True, slots=True)
class Selection:
    """Named partitions, or all that are offline."""

    snapshot: ClusterSnapshot
    offline: tuple[PartitionState, ...]
    online: tuple[PartitionState, ...]
    """Named, but they have a leader: a success."""
    missing: tuple[TopicPartition, ...]
    """Named, but the cluster has no such partition."""


def select(client: ReadClient, named: Sequence[TopicPartition] | None) -> Selection:
    """Sort *named* partitions, each list in their order; None: every offline one.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
        NotAuthorized: a named topic may not be described.
    """
    topics = sorted({one.topic for one in named or ()})
    snapshot = client.snapshot(Deadline.after(SNAPSHOT_SECONDS), topics)
    if named is None:
        return Selection(snapshot, snapshot.offline, (), ())
    states = {one.partition: one for one in snapshot.partitions}
    found = [states[one] for one in named if one in states]
    return Selection(
        snapshot,
        tuple(one for one in found if one.offline),
        tuple(one for one in found if not one.offline),
        tuple(one for one in named if one not in states),
    )
