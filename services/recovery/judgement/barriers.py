"""What keeps an election from being automated, and what else an operator should know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from breakglass.services.model import Forfeited, Reassignment, ReplicaLog, Unknown
from breakglass.services.recovery.judgement.eligibility import ReplicaStanding, answered, live
from breakglass.services.recovery.judgement.inputs import Case, named, proof_of_no_more
from breakglass.services.recovery.judgement.loss import ReplicaLoss, loss_of
from breakglass.services.recovery.judgement.ranking import (
    RankedReplica,
    contents_read,
    corruption,
    how_far_read,
)
from breakglass.services.recovery.judgement.succession import (
    ROLE_WORDS,
    BY_UNCLEAN_ELECTION,
    elected_by_order,
    hazards,
)
from breakglass.services.words.figures import count


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
