"""Partitions in trouble, counted as the brokers' own metrics count them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from breakglass.services.model import PartitionState, Reassignment, Unknown

MinIsr = Mapping[str, int | Unknown]
"""min.insync.replicas by topic; a topic that is absent was not read yet."""

NOT_READ = "min.insync.replicas was not read yet"


class Trouble(StrEnum):
    """What is counted."""

    OFFLINE = "offline"
    UNDER_MIN_ISR = "under min ISR"
    UNDER_REPLICATED = "under-replicated"


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """One moment of a cluster's partitions. A partition without leader is offline and no more."""

    partitions: int
    offline: int
    under_min_isr: int
    """With a leader, and too few replicas in sync for acks=all."""
    under_replicated: int
    """With a leader, and not every replica in sync; those under min ISR among them."""
    unjudged: int = 0
    """Under-replicated, and perhaps under min ISR: *under_min_isr* is a lower bound then."""
    why_unjudged: str = ""

    def number(self, trouble: Trouble) -> int:
        """How many partitions are in *trouble*."""
        match trouble:
            case Trouble.OFFLINE:
                return self.offline
            case Trouble.UNDER_MIN_ISR:
                return self.under_min_isr
            case Trouble.UNDER_REPLICATED:
                return self.under_replicated


@dataclass(frozen=True, slots=True)
class BrokerCounts:
    """What one broker holds, in partitions."""

    replicas: int
    leads: int
    in_sync: int


def count(partitions: Sequence[PartitionState], min_isr: MinIsr) -> PartitionCounts:
    """Count *partitions*, by what is known of their topics' min.insync.replicas."""
    short = list(_short(partitions))
    told = [_below_minimum(one, min_isr.get(one.partition.topic)) for one in short]
    unjudged = [one for one in told if isinstance(one, Unknown)]
    return PartitionCounts(
        partitions=len(partitions),
        offline=sum([one.leader is None for one in partitions]),
        under_min_isr=sum(one is True for one in told),
        under_replicated=len(short),
        unjudged=len(unjudged),
        why_unjudged=unjudged[0].reason if unjudged else "",
    )


def partitions_in(
    trouble: Trouble, partitions: Sequence[PartitionState], min_isr: MinIsr
) -> list[PartitionState]:
    """The partitions that `count` counts as in *trouble*."""
    if trouble is Trouble.OFFLINE:
        return [one for one in partitions if one.leader is None]
    short = _short(partitions)
    if trouble is Trouble.UNDER_REPLICATED:
        return list(short)
    told = ((one, _below_minimum(one, min_isr.get(one.partition.topic))) for one in short)
    return [one for one, below in told if below is True]


def topics_to_judge(partitions: Sequence[PartitionState]) -> frozenset[str]:
    """Topics whose min.insync.replicas decides anything: a full ISR is never under it."""
    return frozenset([one.partition.topic for one in _short(partitions)])


def held_by_broker(partitions: Sequence[PartitionState]) -> dict[int, BrokerCounts]:
    """What each broker that occurs in *partitions* holds."""
    replicas = Counter(chain.from_iterable([one.assignment for one in partitions]))
    in_sync = Counter(chain.from_iterable([one.isr for one in partitions]))
    leads = Counter([one.leader for one in partitions])
    return {
        broker: BrokerCounts(number, leads[broker], in_sync[broker])
        for broker, number in replicas.items()
    }


def _short(partitions: Sequence[PartitionState]) -> Iterator[PartitionState]:
    """Partitions with a leader whose ISR is smaller than their replication factor."""
    for one in partitions:
        full = len(one.isr) >= len(one.assignment) or one.leader is None
        if not full and len(one.isr) < _replication_factor(one):
            yield one


def _replication_factor(state: PartitionState) -> int:
    """The factor it has by now: replicas that a reassignment adds do not count yet (KIP-455)."""
    adding = state.reassignment.adding if isinstance(state.reassignment, Reassignment) else ()
    return len(state.assignment) - len(adding)


def _below_minimum(state: PartitionState, minimum: int | Unknown | None) -> bool | Unknown:
    """Whether its ISR is below the minimum, which no factor exceeds (Partition.effectiveMinIsr)."""
    if minimum is None:
        return Unknown(NOT_READ)
    if isinstance(minimum, Unknown):
        return minimum
    return len(state.isr) < min(minimum, len(state.assignment))
