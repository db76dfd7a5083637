"""What has to look at every partition, done once for as long as none of them has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from breakglass.services.health.counts import (
    BrokerCounts,
    MinIsr,
    PartitionCounts,
    count,
    held_by_broker,
)
from breakglass.services.health.reassignments import Moves, moves_of
from breakglass.services.model import PartitionState, Unknown


@dataclass(frozen=True, slots=True)
class ClusterTally:
    """Sums over the partitions of a snapshot."""

    partitions: tuple[PartitionState, ...]
    min_isr: MinIsr
    counts: PartitionCounts
    held: Mapping[int, BrokerCounts]
    moves: Moves | Unknown


def tally(
    partitions: tuple[PartitionState, ...], min_isr: MinIsr, before: ClusterTally | None = None
) -> ClusterTally:
    """Sum up *partitions*; what *before* has of the very same ones stands."""
    if before is None or before.partitions is not partitions:
        held, moves = held_by_broker(partitions), moves_of(partitions)
        return ClusterTally(partitions, min_isr, count(partitions, min_isr), held, moves)
    if before.min_isr == min_isr:
        return before
    return ClusterTally(partitions, min_isr, count(partitions, min_isr), before.held, before.moves)
