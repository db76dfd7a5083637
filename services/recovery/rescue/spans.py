"""What has to be saved of each replica before an election: pure, by the same rules as the loss.

A follower of the new leader truncates where it diverges from it and raises its log start to the
leader's. Where that cannot be told, everything that may be dropped is saved: to know less must
never mean to save less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from breakglass.services.model import PartitionEvidence, ReplicaLog, TopicPartition, Unknown
from breakglass.services.recovery.judgement.lineage import Divergences
from breakglass.services.recovery.judgement.loss import Drop, drops_from
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.records import LogStretch, Parting, shared_with, without


@dataclass(frozen=True, slots=True)
class AtRisk:
    """A partition about to be elected."""

    evidence: PartitionEvidence
    designee: int

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The offsets ``[start, end)``."""

    start: int
    end: int

    @property
    def offsets(self) -> int:
        """How many there are; fewer records where a log was compacted."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Share:
    """What is saved from one replica."""

    evidence: PartitionEvidence
    replica: ReplicaLog
    spans: tuple[Span, ...]
    """By offset; they do not touch."""

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition

    @property
    def offsets(self) -> int:
        return sum(span.offsets for span in self.spans)


def shares_of(at_risk: AtRisk) -> tuple[Share, ...] | Unknown:
    """What electing the designee cuts off readable replicas; empty if nothing.

    A record that several replicas hold, by epoch and offset, is taken from one of them; on
    compacted topics, where each replica cleans for itself, from all. Replicas that could not be
    read have no share. Unknown, with the reason, where a log to be saved does not tell where it
    begins.
    """
    evidence = at_risk.evidence
    divergences = Divergences(evidence.replicas)
    stretches: list[LogStretch] = []
    for one in _dropped(evidence, at_risk.designee, divergences):
        if isinstance(one, Unknown):
            return one
        stretches.append(one)
    if evidence.settings.compacted is False:
        stretches = _each_once(stretches, divergences.between)
    return tuple(_shares(evidence, stretches))


def _dropped(
    evidence: PartitionEvidence, designee: int, divergences: Divergences
) -> Iterator[LogStretch | Unknown]:
    chosen = evidence.replica(designee)
    if chosen is None or isinstance(chosen.log_end, Unknown):
        for replica in evidence.replicas:
            if replica.broker != designee and isinstance(replica.log_end, int):
                yield from _whole(replica, replica.log_end)
        return
    for drop in drops_from(evidence, chosen, divergences):
        yield from _of_replica(drop, chosen)


def _of_replica(drop: Drop, chosen: ReplicaLog) -> Iterator[LogStretch | Unknown]:
    """Head and tail of one replica; all of it where the tail is unknown."""
    replica, end = drop.replica, drop.replica.log_end
    if isinstance(drop.tail, Unknown) and isinstance(end, int):
        yield from _whole(replica, end)
        return
    if isinstance(drop.head, Unknown) and isinstance(end, int):
        yield from _whole(replica, _before(chosen, end))
    elif isinstance(drop.head, LogStretch):
        yield drop.head
    if isinstance(drop.tail, LogStretch):
        yield drop.tail


def _before(chosen: ReplicaLog, end: int) -> int:
    """Where a head of unknown size ends at the latest."""
    return min(end, chosen.log_start) if isinstance(chosen.log_start, int) else end


def _whole(replica: ReplicaLog, end: int) -> Iterator[LogStretch | Unknown]:
    if not holds_records(replica):
        return
    if isinstance(replica.log_start, Unknown):
        yield replica.log_start
    elif replica.log_start < end:
        yield LogStretch(replica, replica.log_start, end)


def _each_once(stretches: Sequence[LogStretch], parting: Parting) -> list[LogStretch]:
    """*stretches* without what a longer one of them holds too.

    Two replicas that are not known to hold the same records are taken to hold different ones.
    """
    kept: list[LogStretch] = []
    longest_first = sorted(stretches, key=lambda one: (one.start - one.end, one.replica.broker))
    for place, stretch in enumerate(longest_first):
        shared = sorted(
            span
            for other in longest_first[:place]
            for span in _spans_shared(stretch, other, parting)
        )
        kept += [stretch._replace(start=start, end=end) for start, end in without(stretch, shared)]
    return kept


def _spans_shared(
    stretch: LogStretch, other: LogStretch, parting: Parting
) -> Iterable[tuple[int, int]]:
    if stretch.replica.broker == other.replica.broker:
        return ()
    shared = shared_with(stretch, [other], parting)
    return () if isinstance(shared, Unknown) else shared


def _shares(evidence: PartitionEvidence, stretches: Sequence[LogStretch]) -> Iterator[Share]:
    ordered = sorted(stretches, key=lambda one: (one.replica.broker, one.start))
    for _, group in groupby(ordered, key=lambda one: one.replica.broker):
        held = list(group)
        yield Share(evidence, held[0].replica, tuple(_joined(held)))


def _joined(stretches: Sequence[LogStretch]) -> Iterator[Span]:
    """*stretches* of one replica, by offset, with those that touch made one."""
    start, end = stretches[0].start, stretches[0].end
    for one in stretches[1:]:
        if one.start > end:
            yield Span(start, end)
            start = one.start
        end = max(end, one.end)
    yield Span(start, end)
