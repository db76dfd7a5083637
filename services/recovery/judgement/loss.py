"""What choosing a replica costs, counted in records (R9, R10, R11), and what a return cuts.

Followers of a new leader truncate where they diverge from it (the tail) and drop what lies
before its log start (the head). The loss of a choice is the set of distinct records, by
(epoch, offset), that readable replicas hold and the chosen one does not. A record is proved to be
committed when a replica that holds it has a high watermark above it; of any other record it is not
known, for a follower's high watermark lags and is checkpointed every few seconds (R29). What
unread replicas hold is bounded from below only and never added to a loss.

A chosen replica with a corrupt batch counts as ending there: what it holds from there on is lost
to consumers, its own records included. As a loser its log counts in full.

Records are counted as offsets, so on compacted topics the figures are approximate.

A returning member of ISR or ELR, or the last known leader, is elected as it is, and every other
replica truncates where it diverges. So acks=1 records that an earlier leader took alone are lost,
however whole the returning log is.

What it cuts is known if its log is read now. Nothing else proves what is on its disk: a replica
that followed it to the last, and all that it reported before it went down, may have records that
were acknowledged and not flushed, and are gone after a power cut (R26). So while its log is unread,
every record of every other replica may be cut. A lower bound is known without the log: what it
reported since the partition lost its leader bounds its log from above. And the returning log agrees
with each other log up to one offset, so where logs diverge among themselves it lacks at least what
the best of them lacks, of those that agree with the logs of its followers.

Source: PartitionChangeBuilder.maybeUpdateLastKnownLeader of Kafka 4.3.1: a partition that loses its
leader keeps it as the last known ELR, beside an ELR as well. Without ELR, the last member of the
ISR led last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from breakglass.services.model import PartitionEvidence, PartitionState, ReplicaLog, Unknown
from breakglass.services.quick_values import maker, quickly_made
from breakglass.services.recovery.judgement.lineage import (
    NO_RECORDS,
    Count,
    Divergences,
    LogStretch,
    RecordCounts,
    count_distinct,
    split_at_high_watermarks,
    unknown_records,
)
from breakglass.services.recovery.judgement.ranking import (
    BROKERS_KNOWN,
    holds_records,
    live,
    readable,
)
from breakglass.services.recovery.judgement.succession import rescue_before


@quickly_made
@dataclass(frozen=True, slots=True)
class ReplicaLoss:
    """What a readable replica would drop if the chosen replica led."""

    broker: int
    divergence: int | Unknown
    tail: Count
    """Records of its own past the divergence; another replica may hold them too."""
    head: Count
    """Records of its own before the chosen log's start."""
    whole_log: bool = False
    """The log ends before the chosen log starts: all of its records are dropped."""
    committed_past_divergence: bool | Unknown = False
    """Its high watermark lies past its divergence from the chosen replica (R9)."""
    both_sides: bool = False
    """The chosen replica, too, holds records past the divergence: neither is a prefix."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of choosing one replica."""

    candidate: int
    tail: RecordCounts
    head: RecordCounts
    against: tuple[ReplicaLoss, ...]
    """The loss of each other readable replica, in the order of the assignment."""
    approximate: bool = False
    """Offsets are not records here: the topic is, or may be, compacted. No offset lost is exactly
    no record lost."""

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
        return next((dropped for dropped in self.against if dropped.broker == broker), None)


@quickly_made
@dataclass(frozen=True, slots=True)
class UnreadRecords:
    """What is known of records that only unread replicas can hold: a lower bound, no more."""

    replicas: tuple[int, ...]
    """Assigned brokers whose log could not be read, those with a failed disk included."""
    at_least: Count
    """Records known to have existed past everything that could be read."""
    source: str = ""
    """Where the bound comes from."""


_unread_records = maker(UnreadRecords)


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
    drops = drops_from(evidence, chosen, divergences)
    tails = [drop.tail for drop in drops if drop.tail is not None]
    heads = [drop.head for drop in drops if drop.head is not None]
    # Records of the chosen replica that its consumers cannot read.
    if chosen.corrupt_at is not None and chosen.log_end > chosen.corrupt_at:
        tails.insert(0, LogStretch(chosen, chosen.corrupt_at, chosen.log_end))
    tail = _together(tails, divergences) if tails else NO_RECORDS
    head = _together(heads, divergences) if heads else NO_RECORDS
    something = tail.total != 0 or head.total != 0
    against = tuple([drop.loss for drop in drops])
    return Loss(broker, tail, head, against, approximate and something)


def unread_bound(evidence: PartitionEvidence) -> UnreadRecords:
    """The lower bound of what only unread replicas can hold (R11).

    Records below a committed group offset or the end of a backup once existed; those past the
    end of every readable log are in none of them, whichever replica is chosen. Unknown while
    replicas are unread and no such offset is known.
    """
    silent, longest = [], 0
    for replica in evidence.replicas:
        end = replica.log_end
        if isinstance(end, Unknown):
            silent.append(replica.broker)
        elif end > longest:
            longest = end
    return bound_of_unread(evidence, tuple(silent), longest)


def bound_of_unread(
    evidence: PartitionEvidence, silent: tuple[int, ...], longest: int
) -> UnreadRecords:
    """`unread_bound` where *silent* brokers' logs are unread; the *longest* other ends there."""
    floor = evidence.unread_floor
    if isinstance(floor, Unknown):
        return _unread_records(silent, floor if silent else 0)
    past = floor - longest if floor > longest else 0
    return _unread_records(silent, past, evidence.unread_floor_source)


@quickly_made
@dataclass(frozen=True, slots=True)
class Drop:
    """One replica's dropped records: None for nothing, Unknown where they cannot be counted."""

    replica: ReplicaLog
    loss: ReplicaLoss
    tail: LogStretch | Unknown | None = None
    head: LogStretch | Unknown | None = None


def drops_from(
    evidence: PartitionEvidence, chosen: ReplicaLog, divergences: Divergences
) -> list[Drop]:
    """`drops_of` what consumers can read of *chosen*, whose log end is known.

    *divergences* are those of the whole logs.
    """
    led = readable(chosen)
    if led is not chosen:
        divergences = Divergences(
            [led if replica.broker == led.broker else replica for replica in evidence.replicas]
        )
    end = led.log_end
    return [] if isinstance(end, Unknown) else drops_of(evidence, led, end, divergences)


def drops_of(
    evidence: PartitionEvidence, chosen: ReplicaLog, chosen_end: int, divergences: Divergences
) -> list[Drop]:
    """What each other readable replica drops if *chosen*, whose log ends at *chosen_end*, leads."""
    return [
        _drop(replica, replica.log_end, chosen, chosen_end, divergences, evidence)
        for replica in evidence.replicas
        if replica is not chosen
        and isinstance(replica.log_end, int)
        and replica.broker != chosen.broker
    ]


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
    head = None if chosen.log_start == 0 else _head(replica, end, chosen, evidence.settings.tiered)
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
    if tiered is True:
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


def _together(dropped: Iterable[LogStretch | Unknown], divergences: Divergences) -> RecordCounts:
    stretches = []
    for stretch in dropped:
        if isinstance(stretch, Unknown):
            return unknown_records(stretch)
        stretches.append(stretch)
    return split_at_high_watermarks(stretches, divergences.between)


def _length(dropped: LogStretch | Unknown | None) -> Count:
    if isinstance(dropped, LogStretch):
        return dropped.end - dropped.start
    return 0 if dropped is None else dropped


@quickly_made
@dataclass(frozen=True, slots=True)
class CutByReturn:
    """Records that are cut when *broker* returns and leads."""

    broker: int
    holders: tuple[int, ...]
    """The brokers whose replicas have records that *broker* lacks, or may lack."""
    records: Count
    """Distinct records; Unknown while the log of *broker* is unread."""
    at_least: int
    """A lower bound of the records; the same as *records* where these are known."""
    approximate: bool
    """Counted in offsets of a topic that is, or may be, compacted."""

    @property
    def command(self) -> str:
        """The command that saves the records before *broker* returns."""
        return rescue_before(self.broker)

    @property
    def sentence(self) -> str:
        """What is cut, and how to save it before."""
        held = " and ".join(f"b{holder}" for holder in self.holders)
        about = "about " if self.approximate and self.at_least else ""
        bound = f", at least {about}{self.at_least:,}" if self.at_least else ""
        if isinstance(self.records, Unknown):
            may = (
                f"{held} may hold records that b{self.broker} lacks{bound} (how many is unknown: "
                f"{self.records.reason})"
            )
            return f"{may}; they are cut when b{self.broker} leads: first run {self.command}"
        have = "has" if len(self.holders) == 1 else "have"
        which = "record that is" if self.records == 1 else "records that are"
        return (
            f"{held} {have} {about}{self.records:,} {which} not in the log of b{self.broker} and "
            f"will be cut when b{self.broker} leads: first run {self.command}"
        )


def cut_by_return(evidence: PartitionEvidence, broker: int) -> CutByReturn | None:
    """What the return of *broker* as the leader cuts, or may cut; None if provably nothing."""
    returning = evidence.replica(broker)
    if returning is None:
        return None
    approximate = evidence.settings.compacted is not False
    rest = [replica for replica in evidence.replicas if replica.broker != broker]
    # A live one can still be asked. Nothing can be saved of one that is down, before or after.
    unread = [one for one in rest if isinstance(one.log_end, Unknown) and live(one)]
    if isinstance(returning.log_end, int):
        found = _exact(evidence, returning, returning.log_end, approximate)
        if not unread:
            return found
        holders = () if found is None else found.holders
        unknown, at_least = unread_log(unread[0].broker), 0 if found is None else found.at_least
    else:
        others = [one for one in rest if isinstance(one.log_end, int) and holds_records(one)]
        if not others and not unread:
            return None
        holders = tuple([one.broker for one in others])
        unknown, at_least = unread_log(broker), _bound(evidence, returning, others)
    either = {*holders, *(one.broker for one in unread)}
    named = tuple([one.broker for one in rest if one.broker in either])
    return CutByReturn(broker, named, unknown, at_least, approximate)


def _bound(evidence: PartitionEvidence, returning: ReplicaLog, others: Sequence[ReplicaLog]) -> int:
    """What the unread log of *returning* lacks at least."""
    # The log of *returning* as it reported it since the partition has no leader.
    heard = returning.last_heard
    log = None if heard is None or heard.leader_epoch != evidence.state.leader_epoch else heard
    approximate = evidence.settings.compacted is not False
    if log is not None and isinstance(log.log_end, int):
        found = _exact(evidence, log, log.log_end, approximate)
        return 0 if found is None else found.at_least
    followers = [replica for replica in others if _followed(evidence, replica, returning.broker)]
    return _at_least(evidence, followers)


@lru_cache(BROKERS_KNOWN)
def unread_log(broker: int) -> Unknown:
    """Why it is not known how many records the return of *broker* cuts."""
    return Unknown(f"the log of b{broker} is unread")


def only_holders(evidence: PartitionEvidence, cut: CutByReturn) -> PartitionEvidence:
    """*evidence* with the replicas that matter when *cut* is saved: its broker and the holders."""
    kept = [
        replica for replica in evidence.replicas if replica.broker in (cut.broker, *cut.holders)
    ]
    return replace(evidence, replicas=tuple(kept))


def _exact(
    evidence: PartitionEvidence, log: ReplicaLog, log_end: int, approximate: bool
) -> CutByReturn | None:
    replicas = tuple(
        [log if replica.broker == log.broker else replica for replica in evidence.replicas]
    )
    divergences = Divergences(replicas)
    drops = [
        drop
        for drop in drops_of(replace(evidence, replicas=replicas), log, log_end, divergences)
        if drop.tail is not None or drop.head is not None
    ]
    if not drops:
        return None
    holders = tuple([drop.replica.broker for drop in drops])
    stretches: list[LogStretch] = []
    for drop in drops:
        for stretch in (drop.tail, drop.head):
            if isinstance(stretch, Unknown):
                return CutByReturn(log.broker, holders, stretch, 0, approximate)
            if stretch is not None:
                stretches.append(stretch)
    records = count_distinct(stretches, divergences.between)
    at_least = 0 if isinstance(records, Unknown) else records
    return CutByReturn(log.broker, holders, records, at_least, approximate)


def _followed(evidence: PartitionEvidence, replica: ReplicaLog, broker: int) -> bool:
    """Whether *replica* followed *broker* in the epoch in which *broker* led last.

    The leader epoch is raised once when a partition loses its leader.
    """
    written = replica.last_written_epoch
    if not isinstance(written, int) or written < evidence.state.leader_epoch - 1:
        return False
    return led_last(evidence.state, broker)


def led_last(state: PartitionState, broker: int) -> bool:
    """Whether *broker* was the last leader: as the controller noted, or alone in the ISR."""
    noted = state.last_known_elr
    return noted == (broker,) if isinstance(noted, tuple) and noted else state.isr == (broker,)


def _at_least(evidence: PartitionEvidence, followers: Sequence[ReplicaLog]) -> int:
    """What a log that has all of *followers* lacks of the others; 0 where that is not known.

    It has the log of one replica at most that diverges from the rest, so of all logs that agree
    with the followers' the one that lacks least gives the bound.
    """
    divergences = Divergences(evidence.replicas)
    lacking = [
        _lacks(evidence, replica, replica.log_end, divergences)
        for replica in evidence.replicas
        if isinstance(replica.log_end, int)
        and all(
            follower is replica or divergences.between(follower, replica) == follower.log_end
            for follower in followers
        )
    ]
    known = [count for count in lacking if isinstance(count, int)]
    return min(known, default=0) if len(known) == len(lacking) else 0


def _lacks(
    evidence: PartitionEvidence, replica: ReplicaLog, log_end: int, divergences: Divergences
) -> Count:
    tails: list[LogStretch] = []
    for tail in _tails(drops_of(evidence, replica, log_end, divergences)):
        if isinstance(tail, Unknown):
            return tail
        tails.append(tail)
    return count_distinct(tails, divergences.between)


def _tails(drops: Iterable[Drop]) -> Iterator[LogStretch | Unknown]:
    for drop in drops:
        if drop.tail is not None:
            yield drop.tail
