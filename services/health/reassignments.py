"""Reassignments under way, by topic. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from breakglass.services.model import PartitionState, Reassignment, TopicPartition, Unknown


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """One partition that is being moved."""

    partition: TopicPartition
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Moves:
    """All of them."""

    moves: tuple[PartitionMove, ...] = ()

    @property
    def by_topic(self) -> list[tuple[str, int]]:
        """Topics with the number of their partitions that move, most first."""
        counted = Counter(one.partition.topic for one in self.moves)
        return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def moves_of(partitions: Sequence[PartitionState]) -> Moves | Unknown:
    """What moves among *partitions*; Unknown where the controller did not tell."""
    moves: list[PartitionMove] = []
    for one in partitions:
        moving = one.reassignment
        if moving is None:
            continue
        if isinstance(moving, Unknown):
            return moving
        moves.append(_move(one, moving))
    return Moves(tuple(moves))


def _move(state: PartitionState, moving: Reassignment) -> PartitionMove:
    return PartitionMove(state.partition, moving.adding, moving.removing)
