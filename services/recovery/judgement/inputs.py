"""An offline partition with everything that its judgement needs, worked out once.

A replica whose log is unread may have records that no other replica has, whatever its role.
Only the replica itself can prove the contrary: it reported its log while the partition was as it
is now, and that log is a prefix of what can be read of the candidate's.

Metadata proves nothing here. Leader epoch, ISR, ELR and last known leader say who was in sync
last, not where another replica left off: a replica that left the ISR earlier may have led an
earlier epoch, and keeps what it took then, with acks=1 or as the only member of an ISR of
min.insync.replicas=1. With min.insync.replicas of two or more, members of the ELR have every
committed record, but a replica outside may still have uncommitted ones past the high watermark.
A high watermark of the candidate bounds what is committed from below, never from above. And no
answer of a broker has the history of ISR and ELR: DescribeTopicPartitions gives only the last.

What replicas reported earlier and no longer report, kept only where it still bounds them.
A partition without leader takes no record, and a new leader raises the leader
epoch. So what a replica reported while the partition was offline bounds its log for
as long as topic id and leader epoch are the same: since then its log can only have lost records,
by retention, by recovery after a crash or with its disk. That holds if the broker itself knew
that epoch when it reported its log (`proof_of_no_more`): a broker that is cut off from the
controllers may take itself for the leader of an older epoch, and continue to serve producers with
acks=1.
Sources: ReplicaManager.applyLocalFollowersDelta, PartitionRegistration.merge of Kafka 4.3.1.

Records that an operator copies into a log folder by hand are not seen by this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from breakglass.services.model import (
    Forfeited,
    PartitionEvidence,
    Reassignment,
    ReplicaLog,
    Unknown,
)
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.loss import (
    Loss,
    ReplicaLoss,
    UnreadRecords,
    loss_of,
    unread_bound,
)
from breakglass.services.recovery.judgement.ranking import (
    RankedReplica,
    Ranking,
    ReplicaStanding,
    answered,
    contents_read,
    corruption,
    holds_records,
    how_far_read,
    live,
    rank,
    readable,
)
from breakglass.services.recovery.judgement.succession import (
    BY_UNCLEAN_ELECTION,
    IF_AS_IT_WAS,
    IF_AS_THEY_WERE,
    ROLE_WORDS,
    Circumstances,
    SuccessionForecast,
    elected_by_order,
    first_heir,
    forecast_with,
    hazards,
    inheritors,
)
from breakglass.services.words.figures import count
from breakglass.services.words.moments import time_text


def proof_of_no_more(
    evidence: PartitionEvidence, replica: ReplicaLog, candidate: ReplicaLog
) -> str:
    """The sentence that proves that unread *replica* has no more than *candidate*, if any."""
    heard, candidate = replica.last_heard, readable(candidate)
    if heard is None or heard.leader_epoch != evidence.state.leader_epoch:
        return ""
    when = time_text(heard.observed_at_ms)
    since = f"no leader has been elected since b{replica.broker} reported its log at {when}"
    if not holds_records(heard):
        return f"{since}: it had no records"
    ours, theirs = candidate.log_start, heard.log_start
    # The head of the log that was heard has to be in the candidate's log as well.
    if isinstance(ours, Unknown) or (ours and (isinstance(theirs, Unknown) or ours > theirs)):
        return ""
    if divergence(heard, candidate) != heard.log_end:
        return ""
    return f"{since}: it held no more than b{candidate.broker}"


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


def barriers(case: Case) -> Iterator[str]:
    """Why electing the winner of the ranking needs an operator's decision."""
    evidence = case.evidence
    for broker in hazards(evidence, case.winner):
        yield hazard_text(broker)
    if case.ranking.unproven:
        yield case.ranking.unproven
    best = case.best
    if best is not None and best.eligibility.standing is not ReplicaStanding.ELIGIBLE:
        yield best.eligibility.reason
    if evidence.unregistered and elected_by_order(evidence) != case.winner:
        yield f"{named(evidence.unregistered)} is not registered"
    if isinstance(evidence.state.reassignment, Reassignment):
        yield "a reassignment is under way"
    if isinstance(evidence.state.reassignment, Unknown):
        yield f"unknown if it is being reassigned: {evidence.state.reassignment.reason}"
    yield from _loss_barriers(case)
    if not case.circumstances.deadline_passed:
        # R15: a replica on an unfenced broker may still answer.
        missing = [r.broker for r in case.evidence.replicas if live(r) and not answered(r)]
        if missing:
            yield f"{named(missing)} may still answer: wait until the recovery duration has passed"


def hazard_text(broker: int) -> str:
    """What to do about a member of H, R1."""
    return (
        f"the controller may elect b{broker} instead: stop b{broker}, wait until it is fenced, "
        "read again"
    )


def _loss_barriers(case: Case) -> Iterator[str]:
    loss = case.loss
    if loss is None:
        return
    best = case.best
    if best is not None and best.replica.corrupt_at is not None:
        yield corruption(best.replica)
    committed = loss.committed_elsewhere
    if committed is True:
        losers = [r.broker for r in loss.against if r.committed_past_divergence is True]
        yield committed_text(losers, loss.candidate)
    elif isinstance(committed, Unknown):
        yield f"unknown if the lost records are committed: {committed.reason}"
    if case.empty_over_unread:
        yield f"b{loss.candidate} is EMPTY and not every replica could be read"


def committed_text(holders: Iterable[int], candidate: int) -> str:
    """The brokers *holders* know records as committed that *candidate* lacks (R9)."""
    brokers = tuple(holders)
    verb = "holds" if len(brokers) == 1 else "hold"
    return f"{named(brokers)} {verb} committed records that b{candidate} lacks"


def fork_text(other: ReplicaLoss, candidate: int) -> str:
    """Committed records past the divergence, and records of *candidate* there too (R9)."""
    return (
        f"history fork: b{other.broker} holds committed records past offset "
        f"{other.divergence}, where it diverges from b{candidate}"
    )


def remarks(case: Case) -> Iterator[str]:
    """Remarks beside the verdict: what is unusual or pending (R14, R20, R21)."""
    for candidate in case.ranking.candidates:
        yield from _of_replica(case, candidate)
    best = case.best
    losing = case.loss is not None and case.loss.total != 0
    if best is not None and losing and contents_read(best.replica):
        yield f"b{best.broker}: {how_far_read(best.replica)}"
    yield from _over_smaller_loss(case)
    if case.forecast.broker is not None and case.forecast.reason == BY_UNCLEAN_ELECTION:
        yield (
            f"{BY_UNCLEAN_ELECTION}: the controller may elect b{case.forecast.broker} by itself "
            "at any moment"
        )
    circumstances = case.circumstances
    if isinstance(circumstances.quorum, Unknown) and not circumstances.quorum_lost:
        yield f"quorum unknown: {circumstances.quorum.reason}"


def _over_smaller_loss(case: Case) -> Iterator[str]:
    """Why the best replica ranks before one whose election would lose less (R8)."""
    best, loss = case.best, case.loss
    if best is None or loss is None or not isinstance(loss.total, int) or not loss.total:
        return
    for candidate in case.ranking.candidates:
        if candidate.broker == best.broker or candidate.broker not in case.ranking.recommendable:
            continue
        total = loss_of(case.evidence, candidate.broker).total
        if not isinstance(total, int) or total >= loss.total:
            continue
        ours, theirs = best.replica.last_written_epoch, candidate.replica.last_written_epoch
        if isinstance(ours, int) and isinstance(theirs, int) and ours > theirs:
            yield (
                f"b{candidate.broker} would lose {total:,}, and b{best.broker} ranks before it all "
                f"the same: it has records of leader epoch {ours}, b{candidate.broker} of {theirs} "
                "at most"
            )


def copy_remark(replica: ReplicaLog) -> str:
    """Where the copy of an unfinished move holds what the log does not (R21); empty if nowhere.

    The broker cuts a copy to the log that it belongs to, to nothing where that is empty, as soon
    as the log is there again.
    """
    keep = "copy that folder before its broker is restarted or its disk replaced: it is cut then"
    if replica.only_copy is not None:
        copy = replica.only_copy
        return (
            f"b{replica.broker}: all that is left of its log on an online directory is the copy of "
            f"an unfinished move, {count(copy.size)} bytes in {copy.path}, which is not elected "
            f"and cannot be read; {keep}"
        )
    held = replica.log_dir
    if isinstance(held, Unknown) or held.copy is None or isinstance(held.copy.behind, Unknown):
        return ""
    ahead = -held.copy.behind
    if ahead <= 0:
        return ""
    return (
        f"b{replica.broker}: the copy of an unfinished move in {held.copy.path} is {ahead:,} "
        f"offset{'s' * (ahead != 1)} ahead of its log; {keep}"
    )


def _of_replica(case: Case, candidate: RankedReplica) -> Iterator[str]:
    broker, replica = candidate.broker, candidate.replica
    copied = copy_remark(replica)
    if copied:
        yield copied
    if replica.corrupt_at is not None:
        yield corruption(replica)
    elif candidate.remark:
        yield f"b{broker} is {candidate.remark}"
    if replica.log_dir_online is False and broker in case.inheritors:
        yield (
            f"b{broker} is {ROLE_WORDS[replica.role]}, on a log directory that is offline: "
            "repaired with its data, it would bring everything back"
        )
    if isinstance(replica.log_end, Forfeited):
        yield f"keep b{broker} down: {replica.log_end.reason}"
    best = case.best
    if best is not None and replica.last_heard is not None:
        proof = proof_of_no_more(case.evidence, replica, best.replica)
        if proof:
            yield proof
    if broker in case.circumstances.ruled_out:
        yield f"b{broker}: {case.circumstances.ruled_out[broker]}"


def remembering(then: PartitionEvidence | None, now: PartitionEvidence) -> PartitionEvidence:
    """*now* with what its unread replicas reported in *then*, where that still counts."""
    if then is None or not _same_silence(then, now):
        return now
    replicas = tuple([_remembered(then, replica) for replica in now.replicas])
    if all(old is new for old, new in zip(now.replicas, replicas, strict=True)):
        return now
    return replace(now, replicas=replicas)


def _same_silence(then: PartitionEvidence, now: PartitionEvidence) -> bool:
    """Whether the partition had no leader from *then* until *now*."""
    before, after = then.state, now.state
    return (
        before.offline
        and after.offline
        and before.topic_id == after.topic_id
        and before.leader_epoch == after.leader_epoch
    )


def _remembered(then: PartitionEvidence, replica: ReplicaLog) -> ReplicaLog:
    if not isinstance(replica.log_end, Unknown):
        return replica
    before = then.replica(replica.broker)
    if before is None:
        return replica
    heard = before.last_heard if isinstance(before.log_end, Unknown) else before
    return replica if heard is None else replace(replica, last_heard=heard)
