"""Brokers whose unread logs an election gave up: what must not happen to those logs now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult
from breakglass.services.words.figures import partitions_text

COPY_FIRST = "breakglass rescue --from log:DIR"
"""Saves what a copied log folder holds."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A broker that was unread when elections were agreed to, and may hold records of its own."""

    broker: int
    partitions: tuple[TopicPartition, ...]
    """Those that lead on without it, in the order of recovery."""

    @property
    def advice(self) -> str:
        """What is not to be done with it, and what is to be done first."""
        return f"{do_not_start(self.broker)} ({partitions_text(len(self.partitions))} would be cut)"


def do_not_start(broker: int) -> str:
    """That *broker*, once it starts, truncates its logs to those of the leaders."""
    return f"do not start b{broker} before its log folder is copied: {COPY_FIRST}"


def given_up(
    outcomes: Iterable[PartitionOutcome], abandons: Mapping[TopicPartition, Iterable[int]]
) -> tuple[GivenUp, ...]:
    """One for each broker of *abandons* whose log a leader of *outcomes* would cut now.

    *abandons* has the brokers that were unread when the elections were agreed to.
    """
    held: dict[int, list[TopicPartition]] = {}
    for one in outcomes:
        if _leads(one):
            for broker in abandons.get(one.partition, ()):
                if broker != one.leader:
                    held.setdefault(broker, []).append(one.partition)
    return tuple(GivenUp(broker, tuple(held[broker])) for broker in sorted(held))


def _leads(outcome: PartitionOutcome) -> bool:
    """Whether somebody leads now, or may, that was elected without the unread logs."""
    if outcome.result is RecoveryResult.ALREADY_ONLINE:
        return outcome.leader == outcome.target.designee
    return outcome.result in (
        RecoveryResult.ELECTED,
        RecoveryResult.ELECTED_ANOTHER,
        RecoveryResult.UNKNOWN,
    )
