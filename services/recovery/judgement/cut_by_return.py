"""What a broker that returns and leads cuts from the logs of the others, because it lacks it.

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
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.judgement.lineage import (
    Count,
    Divergences,
    LogStretch,
    count_distinct,
)
from breakglass.services.recovery.judgement.loss import Drop, drops_of
from breakglass.services.recovery.judgement.ranking import BROKERS_KNOWN, holds_records, live
from breakglass.services.recovery.judgement.succession import rescue_before


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
