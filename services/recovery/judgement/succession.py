"""Whom the controller would elect by itself, and what that would do (R1, R2, R14).

Source: PartitionChangeBuilder.electAnyLeader, canElectLastKnownLeader of Kafka 4.3.1: a live
member of the ISR, or of the ELR if the ISR is empty, in the order of the assignment; if both
are empty the last known leader, if it is one only; then, for topics that allow unclean
election, the first live replica of the assignment.

It runs when any broker is unfenced, when an assignment is altered, and on a timer, so it may
come at any moment, and no latest moment can be told either: the timer is the active
controller's (PeriodicTaskControlManager). It begins again with each new active controller,
has the controllers' own leader.imbalance.check.interval.seconds, which is not what brokers
answer to DescribeConfigs, waits five minutes after an error, and does not run at all where the
controllers have auto.leader.rebalance.enable=false.
"""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.model import PartitionEvidence, PartitionState, ReplicaLog, Role, Unknown
from breakglass.services.recovery.judgement.circumstances import Circumstances
from breakglass.services.recovery.judgement.eligibility import live
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.ranking import holds_records, log_rank


@dataclass(frozen=True, slots=True)
class SuccessionForecast:
    """What the controller does if nobody intervenes."""

    broker: int | None
    """Whom it elects; None: nobody."""
    reason: str


def inheritors(state: PartitionState) -> tuple[int, ...]:
    """The brokers that the controller elects as soon as they are live, in its order.

    Each of them, intact, brings the partition back without an unclean election by us.
    """
    if state.isr:
        return tuple([broker for broker in state.assignment if broker in state.isr])
    if isinstance(state.elr, tuple) and state.elr:
        return tuple([broker for broker in state.assignment if broker in state.elr])
    last = state.last_known_elr
    return last if isinstance(last, tuple) and len(last) == 1 else ()


def heir(evidence: PartitionEvidence) -> ReplicaLog | None:
    """The live replica that the controller elects by itself, if there is one."""
    for broker in inheritors(evidence.state):
        replica = evidence.replica(broker)
        if replica is not None and replica.fenced is False and live(replica):
            return replica
    return None


def hazards(evidence: PartitionEvidence, designee: int | None) -> tuple[int, ...]:
    """H of rule R1: whom a reorder would elect instead of *designee*.

    Members of ISR, ELR and last known ELR that are live or not known to be fenced. While there
    is one, nothing may be reordered. An unregistered broker cannot be elected before it is back.
    """
    spared = {designee, *evidence.unregistered}
    return tuple(
        [
            replica.broker
            for replica in evidence.replicas
            if replica.role is not Role.STALE and replica.broker not in spared and live(replica)
        ]
    )


def forecast(evidence: PartitionEvidence, circumstances: Circumstances) -> SuccessionForecast:
    """Whom the controller elects next by itself, and why (R2, R14)."""
    if circumstances.without_quorum:
        return SuccessionForecast(None, "no controller quorum, so nobody is elected")
    next_leader = heir(evidence)
    if next_leader is not None:
        return SuccessionForecast(next_leader.broker, f"it is {ROLE_WORDS[next_leader.role]}")
    unclean = evidence.settings.unclean_election
    if isinstance(unclean, Unknown):
        return SuccessionForecast(None, f"unknown if unclean election is on: {unclean.reason}")
    first = first_live(evidence) if unclean else None
    if first is not None:
        return SuccessionForecast(first, UNCLEAN_ELECTION)
    return SuccessionForecast(None, "nobody it may elect is live")


def first_live(evidence: PartitionEvidence) -> int | None:
    """Whom an unclean election takes when nobody inherits: the first live in the assignment."""
    for broker in evidence.state.assignment:
        replica = evidence.replica(broker)
        if replica is not None and replica.fenced is False and live(replica):
            return broker
    return None


UNCLEAN_ELECTION = "unclean.leader.election.enable=true: the first live replica of the assignment"

ROLE_WORDS = {
    Role.ISR: "in the ISR",
    Role.ELR: "in the ELR",
    Role.LAST_KNOWN_ELR: "the last known leader",
    Role.STALE: "stale",
}
"""Roles in the words of sentences."""


def shortfall(evidence: PartitionEvidence, successor: ReplicaLog) -> str:
    """What the readable *successor* would destroy if elected (R2); empty if nothing.

    It is EMPTY, or another replica holds committed records that it lacks, or it ranks below
    another. An ISR or ELR member may rank below a replica with a longer uncommitted tail: that
    election is clean, and the tail was never promised, so it is no alarm.
    """
    others = [
        replica
        for replica in evidence.replicas
        if replica.broker != successor.broker and not isinstance(replica.log_end, Unknown)
    ]
    if not holds_records(successor):
        return _emptiness(evidence, successor, others)
    trusted = successor.role is Role.ISR or successor.role is Role.ELR
    for other in others:
        if holds_records(other):
            lack = _lack(successor, other, trusted)
            if lack:
                return lack
    return ""


def _emptiness(evidence: PartitionEvidence, successor: ReplicaLog, others: list[ReplicaLog]) -> str:
    fuller = next((other for other in others if holds_records(other)), None)
    if fuller is not None:
        return f"b{successor.broker} is back EMPTY and b{fuller.broker} holds records"
    floor = evidence.unread_floor
    if isinstance(floor, int) and floor > 0:
        return f"b{successor.broker} is back EMPTY and offset {floor} was reached before"
    if successor.log_end == 0 and len(others) + 1 < len(evidence.replicas):
        return f"b{successor.broker} is EMPTY and not every other replica could be read"
    return ""


def _lack(successor: ReplicaLog, other: ReplicaLog, trusted: bool) -> str:
    parting, mark = divergence(successor, other), other.high_watermark
    named = f"b{successor.broker}"
    if isinstance(parting, int) and isinstance(mark, int):
        if mark > parting:
            return f"{named} lacks records that b{other.broker} knows as committed"
        if trusted:
            return ""
    if _ranks_below(successor, other):
        return f"{named} is below b{other.broker}"
    return ""


def _ranks_below(one: ReplicaLog, other: ReplicaLog) -> bool:
    """By rank where both epochs are known, else by log end alone."""
    if one.last_written_epoch is None or other.last_written_epoch is None:
        return False
    if isinstance(one.epochs, Unknown) or isinstance(other.epochs, Unknown):
        return log_rank(one)[1] < log_rank(other)[1]
    return log_rank(one) < log_rank(other)
