"""An offline partition with everything that its judgement needs, worked out once.

A replica whose log is unread may have records that no other replica has, whatever its role.
Only the replica itself can prove the contrary: it reported its log while the partition was as it
is now (`heard_before`), and that log is a prefix of what can be read of the candidate's.

Metadata proves nothing here. Leader epoch, ISR, ELR and last known leader say who was in sync
last, not where another replica left off: a replica that left the ISR earlier may have led an
earlier epoch, and keeps what it took then, with acks=1 or as the only member of an ISR of
min.insync.replicas=1. With min.insync.replicas of two or more, members of the ELR have every
committed record, but a replica outside may still have uncommitted ones past the high watermark.
A high watermark of the candidate bounds what is committed from below, never from above. And no
answer of a broker has the history of ISR and ELR: DescribeTopicPartitions gives only the last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from breakglass.services.model import Forfeited, PartitionEvidence, ReplicaLog, Unknown
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.loss import Loss, UnreadRecords, loss_of, unread_bound
from breakglass.services.recovery.judgement.ranking import (
    RankedReplica,
    Ranking,
    holds_records,
    rank,
    readable,
)
from breakglass.services.recovery.judgement.starting import IF_AS_IT_WAS, IF_AS_THEY_WERE
from breakglass.services.recovery.judgement.succession import (
    Circumstances,
    SuccessionForecast,
    first_heir,
    forecast_with,
    inheritors,
)
from breakglass.services.words.moments import time_text


def proof_of_no_more(
    evidence: PartitionEvidence, replica: ReplicaLog, candidate: ReplicaLog
) -> str:
    """The sentence that proves that unread *replica* has no more than *candidate*, if any."""
    heard, candidate = replica.last_heard, readable(candidate)
    if heard is None or heard.leader_epoch != evidence.state.leader_epoch:
        return ""
    when = f"b{replica.broker} reported its log at {time_text(heard.observed_at_ms)}"
    if not holds_records(heard):
        return f"{when}, without a leader since: it had no records"
    ours, theirs = candidate.log_start, heard.log_start
    # The head of the log that was heard has to be in the candidate's log as well.
    if isinstance(ours, Unknown) or (ours and (isinstance(theirs, Unknown) or ours > theirs)):
        return ""
    if divergence(heard, candidate) != heard.log_end:
        return ""
    return f"{when}, without a leader since: it held no more than b{candidate.broker}"


def abandoned(evidence: PartitionEvidence, broker: int | None) -> tuple[int, ...]:
    """Brokers whose log is unread and not proved to hold no more than that of *broker*.

    In the order of the assignment. Electing *broker* gives up whatever they hold beyond it,
    whether they are gone or not. Without *broker*, or while its own log is unread, nothing is
    proved.
    """
    unread = [
        replica
        for replica in evidence.replicas
        if isinstance(replica.log_end, Unknown) and replica.broker != broker
    ]
    if not unread:
        return ()
    candidate = None if broker is None else evidence.replica(broker)
    return tuple(
        [
            replica.broker
            for replica in _by_assignment(unread, evidence)
            if not (candidate is not None and proof_of_no_more(evidence, replica, candidate))
        ]
    )


def unheard(
    evidence: PartitionEvidence, broker: int, gone: Collection[int]
) -> tuple[ReplicaLog, ...]:
    """The abandoned replicas of an election of *broker* that can still be heard.

    Not those of brokers declared *gone*, nor those on a log directory that is offline, nor those
    that are better left down.
    """
    return _unheard(_left_by(evidence, abandoned(evidence, broker)), gone)


def _left_by(evidence: PartitionEvidence, brokers: tuple[int, ...]) -> list[ReplicaLog]:
    """The replicas of *brokers*, in their order."""
    found = [evidence.replica(broker) for broker in brokers]
    return [replica for replica in found if replica is not None]


def _unheard(left: list[ReplicaLog], gone: Collection[int]) -> tuple[ReplicaLog, ...]:
    return tuple([replica for replica in left if _can_be_heard(replica, gone)])


def absent_inheritors(evidence: PartitionEvidence, gone: Collection[int]) -> tuple[ReplicaLog, ...]:
    """Replicas that each bring the partition back whole: the controller elects them."""
    return absent_of(evidence, inheritors(evidence.state), gone)


def absent_of(
    evidence: PartitionEvidence, brokers: tuple[int, ...], gone: Collection[int]
) -> tuple[ReplicaLog, ...]:
    """`absent_inheritors` where the inheritors are known to be *brokers*."""
    if not brokers:
        return ()
    return tuple(
        [
            replica
            for replica in _left_by(evidence, brokers)
            if replica.broker not in evidence.unregistered and _can_be_heard(replica, gone)
        ]
    )


def passed_over(evidence: PartitionEvidence, broker: int, gone: Collection[int]) -> str:
    """What electing *broker* does not wait for, and what to do instead; empty if nothing."""
    whole = [
        replica.broker for replica in absent_inheritors(evidence, gone) if replica.broker != broker
    ]
    more = [
        replica.broker for replica in unheard(evidence, broker, gone) if replica.broker not in whole
    ]
    said = []
    if whole:
        condition = IF_AS_IT_WAS if len(whole) == 1 else IF_AS_THEY_WERE
        said.append(f"{_either(whole)} would bring it back whole {condition}")
    if more:
        said.append(f"{_either(more)} may hold more")
    if not said:
        return ""
    every = [*whole, *more]
    which = "it" if len(every) == 1 else "each"
    declared = " ".join(f"--gone {broker}" for broker in every)
    return f"{' and '.join(said)}: start {which}, or declare {which} gone ({declared})"


def _by_assignment(replicas: list[ReplicaLog], evidence: PartitionEvidence) -> list[ReplicaLog]:
    """Of several *replicas* that metadata does not distinguish, the first assigned comes first."""
    if len(replicas) < 2:
        return replicas
    assignment = evidence.state.assignment
    return sorted(
        replicas,
        key=lambda replica: (
            replica.broker not in assignment,
            assignment.index(replica.broker) if replica.broker in assignment else replica.broker,
        ),
    )


def _either(brokers: Collection[int]) -> str:
    return " or ".join(f"b{broker}" for broker in brokers)


def _can_be_heard(replica: ReplicaLog, gone: Collection[int]) -> bool:
    """Starting or reconnecting its broker makes the replica report its log."""
    return (
        replica.broker not in gone
        and replica.log_dir_online is not False
        and not isinstance(replica.log_end, Forfeited)
    )


@quickly_made
@dataclass(frozen=True, slots=True)
class Case:
    """The evidence with everything that several judgements need."""

    evidence: PartitionEvidence
    circumstances: Circumstances
    ranking: Ranking
    best: RankedReplica | None
    """The replica that leads the ranking."""
    winner: int | None
    """Its broker."""
    loss: Loss | None
    """The loss of choosing the winner."""
    unread: UnreadRecords
    inheritors: tuple[int, ...]
    """Brokers that the controller elects as soon as they are live."""
    heir: ReplicaLog | None
    """The replica of these that is live."""
    forecast: SuccessionForecast
    abandoned: tuple[int, ...]
    """Brokers that are unread and not proved to hold no more than the winner."""
    unheard: tuple[ReplicaLog, ...]
    """The replicas that would report their logs, were their brokers started or reconnected."""
    out_of_reach: tuple[ReplicaLog, ...]
    """Replicas that a start does not bring, though nobody declared them gone."""

    @property
    def empty_over_unread(self) -> bool:
        """KIP-1275's pathological example: the winner has no records, and others are unread."""
        best = self.best
        return bool(self.abandoned) and best is not None and not holds_records(best.replica)


def case_of(evidence: PartitionEvidence, circumstances: Circumstances) -> Case:
    """Work out what the judgement of *evidence* needs."""
    ranking = rank(evidence)
    best = ranking.winner
    winner = None if best is None else best.broker
    gone = circumstances.ruled_out
    abandons = abandoned(evidence, winner)
    left = _left_by(evidence, abandons) if abandons and winner is not None else []
    successors = inheritors(evidence.state)
    next_leader = first_heir(evidence, successors) if successors else None
    return Case(
        evidence,
        circumstances,
        ranking,
        best,
        winner,
        None if best is None else loss_of(evidence, best.broker),
        unread_bound(evidence),
        successors,
        next_leader,
        forecast_with(evidence, circumstances, next_leader),
        abandons,
        _unheard(left, gone) if left else (),
        # On a log directory that is offline, or on a broker that is better left down.
        tuple([one for one in left if one.broker not in gone and not _can_be_heard(one, gone)]),
    )


def named(brokers: Iterable[int]) -> str:
    """*brokers* as a sentence names them: ``b1, b2``."""
    return ", ".join([f"b{broker}" for broker in brokers])
