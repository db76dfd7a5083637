"""Brokers whose unread logs an election gave up: what must not happen to those logs now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult
from breakglass.services.recovery.judgement.starting import SAFE_WHEN, do_not_start
from breakglass.services.words.figures import partitions_text


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A broker that was unread when elections were agreed to, and may hold records of its own."""

    broker: int
    partitions: tuple[TopicPartition, ...]
    """Partitions that are led without the broker, in the order of recovery."""

    @property
    def advice(self) -> str:
        """What not to do with the broker, what to do first, and what says when it is safe."""
        cut = f"({partitions_text(len(self.partitions))} would be cut)"
        return f"{do_not_start(self.broker)} {cut}; {SAFE_WHEN} says when it is safe"


def given_up(
    outcomes: Iterable[PartitionOutcome], abandons: Mapping[TopicPartition, Iterable[int]]
) -> tuple[GivenUp, ...]:
    """A value for each broker of *abandons* whose log a leader of *outcomes* would cut now.

    *abandons* has the brokers that were unread when the elections were agreed to.
    """
    abandoned: dict[int, list[TopicPartition]] = {}
    for outcome in outcomes:
        if _leads(outcome):
            for broker in abandons.get(outcome.partition, ()):
                if broker != outcome.leader:
                    abandoned.setdefault(broker, []).append(outcome.partition)
    return tuple(GivenUp(broker, tuple(abandoned[broker])) for broker in sorted(abandoned))


def _leads(outcome: PartitionOutcome) -> bool:
    """Whether a leader that was elected without the unread logs leads now, or may lead."""
    if outcome.result is RecoveryResult.ALREADY_ONLINE:
        return outcome.leader == outcome.target.designee
    return outcome.result in (
        RecoveryResult.ELECTED,
        RecoveryResult.ELECTED_ANOTHER,
        RecoveryResult.UNKNOWN,
    )
