"""What has to look at every partition, done once for as long as none of them has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.health.counts import Counts, Held, MinIsr, count, held_by_broker
from services.health.reassignments import Moves, moves_of
from services.model import PartitionState, Unknown


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the partitions of a snapshot."""

    partitions: tuple[PartitionState, ...]
    min_isr: MinIsr
    counts: Counts
    held: Mapping[int, Held]
    moves: Moves | Unknown


def tally(
    partitions: tuple[PartitionState, ...], min_isr: MinIsr, before: Tally | None = None
) -> Tally:
    """Sum up *partitions*; what *before* has of the very same ones stands."""
    if before is None or before.partitions is not partitions:
        held, moves = held_by_broker(partitions), moves_of(partitions)
        return Tally(partitions, min_isr, count(partitions, min_isr), held, moves)
    if before.min_isr == min_isr:
        return before
    return Tally(partitions, min_isr, count(partitions, min_isr), before.held, before.moves)
