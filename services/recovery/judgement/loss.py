"""What choosing a replica costs, counted in records (R9, R10, R11).

Followers of a new leader truncate where they diverge from it (the tail) and drop what lies
before its log start (the head). The loss of a choice is the set of distinct records, by
(epoch, offset), that readable replicas hold and the chosen one does not. A record is committed
when a replica that holds it has a high watermark above it; a follower's high watermark lags and
is checkpointed every few seconds, so "uncommitted" means: not known to be committed. What
unread replicas hold is bounded from below only and never added to a loss.

A chosen replica with a corrupt batch counts as ending there: what it holds from there on is lost
to consumers, its own records included. As a loser its log counts in full.

Records are counted as offsets, so on compacted topics the figures are approximate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from breakglass.services.model import PartitionEvidence, ReplicaLog, Unknown
from breakglass.services.recovery.judgement.lineage import Divergences
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.readable import readable
from breakglass.services.recovery.judgement.records import (
    NO_RECORDS,
    Count,
    LogStretch,
    RecordCounts,
    split_at_high_watermarks,
    unknown_records,
)


@dataclass(frozen=True, slots=True)
class ReplicaLoss:
    """What one readable replica would drop if the chosen one led."""

    broker: int
    divergence: int | Unknown
    tail: Count
    """Records of its own past the divergence; another replica may hold them too."""
    head: Count
    """Records of its own before the chosen log's start."""
    whole_log: bool = False
    """It ends before the chosen log starts: everything it has is dropped."""
    committed_past_divergence: bool | Unknown = False
    """Its high watermark lies past its divergence from the chosen replica (R9)."""
    both_sides: bool = False
    """The chosen replica, too, holds records past the divergence: neither is a prefix."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of choosing one replica."""

    candidate: int
    tail: RecordCounts
    head: RecordCounts
    against: tuple[ReplicaLoss, ...]
    """One for each other replica that could be read, in the order of the assignment."""
    approximate: bool = False
    """Offsets are not records here: the topic is, or may be, compacted."""

    @property
    def records(self) -> RecordCounts:
        """Tail and head together; they share no record."""
        return self.tail if self.head is NO_RECORDS else self.tail + self.head

    @property
    def total(self) -> Count:
        return self.records.total

    @property
    def committed_elsewhere(self) -> bool | Unknown:
        """Whether another replica holds committed records past its divergence (R9)."""
        unsettled: bool | Unknown = False
        for other in self.against:
            if other.committed_past_divergence is True:
                return True
            if other.committed_past_divergence is not False:
                unsettled = other.committed_past_divergence
        return unsettled

    def of(self, broker: int) -> ReplicaLoss | None:
        """What the replica on *broker* would drop, if it could be read."""
        return next((one for one in self.against if one.broker == broker), None)


@dataclass(frozen=True, slots=True)
class UnreadRecords:
    """What is known of records that only unread replicas can hold: a lower bound, no more."""

    replicas: tuple[int, ...]
    """Assigned brokers whose log could not be read, those with a failed disk included."""
    at_least: Count
    """Records known to have existed past everything that could be read."""
    source: str = ""
    """Where the bound comes from."""


def loss_of(evidence: PartitionEvidence, broker: int) -> Loss:
    """The loss of choosing the replica on *broker*; Unknown when it could not be read."""
    approximate = evidence.settings.compacted is not False
    chosen = evidence.replica(broker)
    if chosen is None:
        why = Unknown(f"b{broker} is not assigned")
        return Loss(broker, unknown_records(why), NO_RECORDS, (), approximate)
    if isinstance(chosen.log_end, Unknown):
        return Loss(broker, unknown_records(chosen.log_end), NO_RECORDS, (), approximate)
    divergences = Divergences(evidence.replicas)
    drops = list(drops_from(evidence, chosen, divergences))
    return Loss(
        broker,
        _together([_corrupt_tail(chosen), *[drop.tail for drop in drops]], divergences),
        _together([drop.head for drop in drops], divergences),
        tuple([drop.loss for drop in drops]),
        approximate,
    )


def unread_bound(evidence: PartitionEvidence) -> UnreadRecords:
    """The lower bound of what only unread replicas can hold (R11).

    Records below a committed group offset or the end of a backup once existed; those past the
    end of every readable log are in none of them, whichever replica is chosen. Unknown while
    replicas are unread and no such offset is known.
    """
    silent = tuple([r.broker for r in evidence.replicas if isinstance(r.log_end, Unknown)])
    floor = evidence.unread_floor
    if isinstance(floor, Unknown):
        return UnreadRecords(silent, floor if silent else 0)
    ends = [r.log_end for r in evidence.replicas if isinstance(r.log_end, int)]
    return UnreadRecords(silent, max(0, floor - max(ends, default=0)), evidence.unread_floor_source)


@dataclass(frozen=True, slots=True)
class Drop:
    """One replica's dropped records: None for nothing, Unknown where they cannot be told."""

    replica: ReplicaLog
    loss: ReplicaLoss
    tail: LogStretch | Unknown | None = None
    head: LogStretch | Unknown | None = None


def drops_from(
    evidence: PartitionEvidence, chosen: ReplicaLog, divergences: Divergences
) -> Iterator[Drop]:
    """`drops_of` what consumers can read of *chosen*, whose log end is known.

    *divergences* are those of the whole logs.
    """
    led = readable(chosen)
    if led is not chosen:
        divergences = Divergences(
            [led if one.broker == led.broker else one for one in evidence.replicas]
        )
    if isinstance(led.log_end, int):
        yield from drops_of(evidence, led, led.log_end, divergences)


def _corrupt_tail(chosen: ReplicaLog) -> LogStretch | None:
    """Its own records that its consumers cannot read."""
    end, limit = chosen.log_end, chosen.corrupt_at
    if limit is None or isinstance(end, Unknown) or end <= limit:
        return None
    return LogStretch(chosen, limit, end)


def drops_of(
    evidence: PartitionEvidence, chosen: ReplicaLog, chosen_end: int, divergences: Divergences
) -> Iterator[Drop]:
    """What each other readable replica drops if *chosen*, whose log ends at *chosen_end*, leads."""
    for replica in evidence.replicas:
        if replica.broker != chosen.broker and isinstance(replica.log_end, int):
            yield _drop(replica, replica.log_end, chosen, chosen_end, divergences, evidence)


def _drop(
    replica: ReplicaLog,
    end: int,
    chosen: ReplicaLog,
    chosen_end: int,
    divergences: Divergences,
    evidence: PartitionEvidence,
) -> Drop:
    if not holds_records(replica):
        return Drop(replica, ReplicaLoss(replica.broker, min(end, chosen_end), 0, 0))
    parting = divergences.between(replica, chosen)
    tail = _tail(replica, end, chosen, parting)
    head = _head(replica, end, chosen, evidence.settings.tiered)
    whole_log = isinstance(chosen.log_start, int) and end < chosen.log_start
    loss = ReplicaLoss(
        replica.broker,
        parting,
        _length(tail),
        _length(head),
        whole_log,
        _committed_past(replica, parting, tail, ends_alike=end == chosen_end),
        isinstance(parting, int) and chosen_end > parting,
    )
    return Drop(replica, loss, tail, head)


def _tail(
    replica: ReplicaLog, end: int, chosen: ReplicaLog, parting: int | Unknown
) -> LogStretch | Unknown | None:
    if isinstance(parting, Unknown):
        return parting
    start = parting
    for log_start in (replica.log_start, chosen.log_start):
        if isinstance(log_start, int) and log_start > start:
            start = log_start
    return LogStretch(replica, start, end) if start < end else None


def _head(
    replica: ReplicaLog, end: int, chosen: ReplicaLog, tiered: bool | Unknown
) -> LogStretch | Unknown | None:
    """Records before the chosen log's start; on a tiered topic remote storage keeps them."""
    start, chosen_start = replica.log_start, chosen.log_start
    if isinstance(chosen_start, Unknown):
        return chosen_start
    if chosen_start == 0 or tiered is True:
        return None
    if isinstance(start, Unknown):
        return start
    if start >= chosen_start:
        return None
    return (
        tiered
        if isinstance(tiered, Unknown)
        else LogStretch(replica, start, min(end, chosen_start))
    )


def _committed_past(
    replica: ReplicaLog,
    parting: int | Unknown,
    tail: LogStretch | Unknown | None,
    *,
    ends_alike: bool,
) -> bool | Unknown:
    """R9. Logs of unknown history that end alike are taken for the same log, as in R8."""
    mark = replica.high_watermark
    if isinstance(parting, Unknown):
        return False if ends_alike else parting
    if isinstance(mark, Unknown):
        return False if tail is None else mark
    return mark > parting


def _together(
    dropped: Iterable[LogStretch | Unknown | None], divergences: Divergences
) -> RecordCounts:
    stretches = []
    for one in dropped:
        if isinstance(one, Unknown):
            return unknown_records(one)
        if one is not None:
            stretches.append(one)
    return split_at_high_watermarks(stretches, divergences.between)


def _length(dropped: LogStretch | Unknown | None) -> Count:
    if isinstance(dropped, LogStretch):
        return dropped.end - dropped.start
    return 0 if dropped is None else dropped
