"""Who could lead one partition, at what loss, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import Price
from breakglass.services.recovery.judgement.assessment import own_consent, refusal

if TYPE_CHECKING:
    from breakglass.services.model import ReplicaLog
    from breakglass.services.recovery.plan.document import PartitionRecord


@dataclass(frozen=True, slots=True)
class ReplicaCandidate:
    """One replica of a partition, as a choice."""

    replica: ReplicaLog
    loses: Price
    """The loss of electing the replica; unknown where its log could not be read."""
    refusal: str = ""
    """Why the replica cannot be elected; empty if it can."""
    own_consent: str = ""
    """Why the election needs a consent of its own; empty if it does not."""

    @property
    def broker(self) -> int:
        return self.replica.broker

    @property
    def eligible(self) -> bool:
        return not self.refusal


def candidates(record: PartitionRecord) -> tuple[ReplicaCandidate, ...]:
    """Every replica of *record*, best ranked first."""
    replicas = [record.evidence.replica(broker) for broker in record.ranking]
    return tuple([_candidate(record, replica) for replica in replicas if replica is not None])


def _candidate(record: PartitionRecord, replica: ReplicaLog) -> ReplicaCandidate:
    loss = record.loss_of(replica.broker)
    barred = refusal(record.evidence, replica.broker)
    alone = "" if barred else own_consent(record.evidence, replica.broker, record.gone)
    return ReplicaCandidate(replica, Price(loss.total, loss.approximate), barred, alone)
