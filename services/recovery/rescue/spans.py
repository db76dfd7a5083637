"""Decides what to save of each replica before an election, by the same rules as the loss. Pure.

A follower of the new leader truncates where its log diverges, and raises its log start to the
leader's. If the divergence is unknown, all records that may be dropped are saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from breakglass.services.model import (
    Forfeited,
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.cut_by_return import cut_by_return, only_holders
from breakglass.services.recovery.judgement.lineage import Divergences
from breakglass.services.recovery.judgement.loss import Drop, drops_from
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.records import LogStretch, Parting, shared_with, without
from breakglass.services.recovery.judgement.succession import inheritors


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
        """The number of offsets; fewer records where a log was compacted."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Share:
    """What is saved from a replica."""

    evidence: PartitionEvidence
    replica: ReplicaLog
    spans: tuple[Span, ...]
    """The spans, sorted by offset; they do not touch."""

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition

    @property
    def offsets(self) -> int:
        return sum(span.offsets for span in self.spans)


def at_risk_of_return(evidence: PartitionEvidence, broker: int) -> AtRisk | None:
    """What is to be saved before *broker* returns; None if it does not lead, or cuts nothing."""
    if not inherits(evidence, broker):
        return None
    cut = cut_by_return(evidence, broker)
    return None if cut is None else AtRisk(only_holders(evidence, cut), broker)


def unread_beside(evidence: PartitionEvidence, broker: int) -> tuple[int, ...]:
    """Brokers whose logs could not be read, where *broker* leads when it returns.

    What they alone hold is cut, too, once they follow, and no rescue saves it before.
    """
    if not inherits(evidence, broker):
        return ()
    return tuple(
        [
            replica.broker
            for replica in evidence.replicas
            if replica.broker != broker and isinstance(replica.log_end, Unknown)
        ]
    )


def inherits(evidence: PartitionEvidence, broker: int) -> bool:
    """Whether *broker* leads the partition as soon as it returns."""
    return evidence.state.offline and broker in inheritors(evidence.state)


def harm_of(partitions: Iterable[PartitionEvidence], broker: int) -> str:
    """Why *broker* is to be kept down, by what it reported earlier; empty if nothing says so."""
    for evidence in partitions:
        replica = evidence.replica(broker)
        if replica is not None and isinstance(replica.log_end, Forfeited):
            return replica.log_end.reason
    return ""


def shares_of(at_risk: AtRisk) -> tuple[Share, ...] | Unknown:
    """What electing the designee cuts off readable replicas; empty if nothing.

    A record that several replicas have, by epoch and offset, is taken from one of them. On
    compacted topics, where each replica compacts its own log, it is taken from all. Unreadable
    replicas have no share. Unknown, with the reason, if the start of a log to be saved is unknown.
    """
    evidence = at_risk.evidence
    divergences = Divergences(evidence.replicas)
    stretches: list[LogStretch] = []
    for stretch in _dropped(evidence, at_risk.designee, divergences):
        if isinstance(stretch, Unknown):
            return stretch
        stretches.append(stretch)
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
    """Head and tail of a replica; the whole log where the tail is unknown."""
    replica, end = drop.replica, drop.replica.log_end
    if isinstance(drop.tail, Unknown) and isinstance(end, int):
        yield from _whole(replica, end)
        return
    if isinstance(drop.head, Unknown) and isinstance(end, int):
        # The latest offset at which a head of unknown size ends.
        yield from _whole(
            replica, min(end, chosen.log_start) if isinstance(chosen.log_start, int) else end
        )
    elif isinstance(drop.head, LogStretch):
        yield drop.head
    if isinstance(drop.tail, LogStretch):
        yield drop.tail


def _whole(replica: ReplicaLog, end: int) -> Iterator[LogStretch | Unknown]:
    if not holds_records(replica):
        return
    if isinstance(replica.log_start, Unknown):
        yield replica.log_start
    elif replica.log_start < end:
        yield LogStretch(replica, replica.log_start, end)


def _each_once(stretches: Sequence[LogStretch], parting: Parting) -> list[LogStretch]:
    """*stretches* without records that a longer stretch has too.

    Two replicas that are not known to have the same records are taken to have different records.
    """
    kept: list[LogStretch] = []
    longest_first = sorted(
        stretches, key=lambda stretch: (stretch.start - stretch.end, stretch.replica.broker)
    )
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
    ordered = sorted(stretches, key=lambda stretch: (stretch.replica.broker, stretch.start))
    for _, group in groupby(ordered, key=lambda stretch: stretch.replica.broker):
        held = list(group)
        yield Share(evidence, held[0].replica, tuple(_joined(held)))


def _joined(stretches: Sequence[LogStretch]) -> Iterator[Span]:
    """*stretches* of one replica, by offset, with adjacent stretches merged."""
    start, end = stretches[0].start, stretches[0].end
    for stretch in stretches[1:]:
        if stretch.start > end:
            yield Span(start, end)
            start = stretch.start
        end = max(end, stretch.end)
    yield Span(start, end)
