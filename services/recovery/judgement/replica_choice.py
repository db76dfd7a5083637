"""Whether a replica may be chosen to lead, and what its choice asks of the operator."""

from __future__ import annotations

from collections.abc import Collection

from breakglass.services.model import PartitionEvidence, Reassignment, Unknown
from breakglass.services.recovery.judgement.eligibility import ReplicaStanding, eligibility
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.recovery.judgement.loss import Loss, loss_of, unread_bound
from breakglass.services.recovery.judgement.precedence import internal
from breakglass.services.recovery.judgement.ranking import Ranking, holds_records, rank
from breakglass.services.recovery.judgement.readable import corruption
from breakglass.services.recovery.judgement.succession import hazards
from breakglass.services.recovery.judgement.unheard import abandoned, passed_over


def refusal(evidence: PartitionEvidence, broker: int) -> str:
    """Why *broker* cannot be chosen at all (R1, R12, R16); empty if it can."""
    found = eligibility(evidence, broker)
    if found.standing is ReplicaStanding.BARRED:
        return found.reason
    if not evidence.state.offline:
        return f"b{evidence.state.leader} leads it already"
    if evidence.unregistered:
        return f"{named(evidence.unregistered)} in the assignment is not registered"
    if isinstance(evidence.state.reassignment, Reassignment):
        return "a reassignment is under way: finish or cancel it first"
    others = hazards(evidence, broker)
    if others:
        return (
            f"the controller may elect {named(others)} instead: stop {named(others)}, wait until "
            "fenced, read again"
        )
    return ""


def choices(evidence: PartitionEvidence, ranking: Ranking | None = None) -> tuple[int, ...]:
    """Brokers that a rule may choose, best first: read, and with nothing against them."""
    ranked = ranking or rank(evidence)
    return tuple([broker for broker in ranked.recommendable if not refusal(evidence, broker)])


def own_consent(
    evidence: PartitionEvidence,
    broker: int,
    gone: Collection[int],
    loss: Loss | None = None,
    ranking: Ranking | None = None,
) -> str:
    """Why electing *broker* needs a consent for this partition alone; empty if it does not.

    Internal topics (R17), a loss or ranking that is unknown (R8, R16), a corrupt batch, committed
    records on another replica (R9), a broker that is passed over though nobody declared it *gone*,
    and unread logs of which nothing at all is known, or beside a log without records (R11).
    The *loss* of electing it and the *ranking* save working them out again.
    """
    if internal(evidence.partition):
        return "it is an internal topic"
    standing = eligibility(evidence, broker)
    if standing.standing is not ReplicaStanding.ELIGIBLE:
        return standing.reason
    replica = evidence.replica(broker)
    if replica is not None and replica.corrupt_at is not None:
        return corruption(replica)
    loss = loss or loss_of(evidence, broker)
    if loss.committed_elsewhere is True:
        return "committed records of other replicas are lost"
    if isinstance(loss.total, Unknown):
        return f"the loss is unknown: {loss.total.reason}"
    if isinstance(loss.committed_elsewhere, Unknown):
        return f"unknown if committed records are lost: {loss.committed_elsewhere.reason}"
    unproven = (ranking or rank(evidence)).unproven
    if unproven:
        return unproven
    return _over_unread(evidence, broker, gone)


def _over_unread(evidence: PartitionEvidence, broker: int, gone: Collection[int]) -> str:
    """Why the unread logs that are given up need a look of their own."""
    left = abandoned(evidence, broker)
    replica = evidence.replica(broker)
    if left and replica is not None and not holds_records(replica):
        return f"b{broker} is EMPTY and not every replica could be read"
    waits = passed_over(evidence, broker, gone)
    if waits or not left:
        return waits
    bound = unread_bound(evidence).at_least
    if isinstance(bound, Unknown):
        return f"nothing is known of what unread {named(left)} holds: {bound.reason}"
    return ""
