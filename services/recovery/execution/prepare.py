"""From evidence and a choice to a frozen target."""

from __future__ import annotations

from breakglass.services.model import PartitionEvidence, known
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.judgement.ranking import Ranking, election_order, rank


def target_of(
    evidence: PartitionEvidence, designee: int, ranking: Ranking | None = None
) -> ElectionTarget:
    """The target that makes *designee* lead, with the whole ranking as its order (R4).

    *ranking* saves ranking the replicas again.
    """
    replica = evidence.replica(designee)
    log_end = replica.log_end if replica is not None else None
    minimum = evidence.settings.min_insync_replicas
    return ElectionTarget(
        partition=evidence.partition,
        topic_id=evidence.state.topic_id,
        designee=designee,
        order=election_order(evidence, ranking or rank(evidence), designee),
        assignment=evidence.state.assignment,
        leader_epoch=evidence.state.leader_epoch,
        log_end=log_end if isinstance(log_end, int) else None,
        min_insync_replicas=minimum if known(minimum) else None,
        live=live_beside(evidence, designee),
    )


def live_beside(evidence: PartitionEvidence, designee: int) -> tuple[int, ...]:
    """Assigned brokers other than *designee* that were not fenced when this was read."""
    return tuple(
        one.broker for one in evidence.replicas if one.broker != designee and one.fenced is not True
    )
