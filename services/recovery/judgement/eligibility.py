"""Which replicas may be designated leader, and why the others may not (R16, KIP-1275).

The controller elects only assigned replicas that are unfenced and whose log directory is
online. What it thinks of a broker is not what our own network says: a broker that does not
answer us may well be elected.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from breakglass.services.model import PartitionEvidence, ReplicaLog, Unknown
from breakglass.services.quick_values import quickly_made

BROKERS_KNOWN = 4096
"""Brokers whose standing is kept for the next partition; there are rarely more in a cluster."""


class ReplicaStanding(StrEnum):
    """Whether a replica can be designated."""

    ELIGIBLE = "eligible"
    DOUBTFUL = "doubtful"
    """Read, but not known to be unfenced: recommended at most, never automated."""
    BY_HAND = "by hand"
    """Not read and not known to be fenced: never recommended, and its loss is unknown."""
    BARRED = "barred"


@quickly_made
@dataclass(frozen=True, slots=True)
class Eligibility:
    """The standing of a replica, with the reason."""

    broker: int
    standing: ReplicaStanding
    reason: str = ""
    """Empty for a replica that is plainly eligible."""

    @property
    def recommendable(self) -> bool:
        """The replica was read and nothing known bars it."""
        return (
            self.standing is ReplicaStanding.ELIGIBLE or self.standing is ReplicaStanding.DOUBTFUL
        )


def eligibility(evidence: PartitionEvidence, broker: int) -> Eligibility:
    """The standing of *broker*, be it assigned or not."""
    replica = evidence.replica(broker)
    if replica is None or broker not in evidence.state.assignment:
        assigned = ", ".join(map(str, evidence.state.assignment))
        return Eligibility(
            broker, ReplicaStanding.BARRED, f"b{broker} is not in the assignment {assigned}"
        )
    return replica_eligibility(evidence, replica)


def replica_eligibility(evidence: PartitionEvidence, replica: ReplicaLog) -> Eligibility:
    """The standing of an assigned *replica*."""
    broker, fenced = replica.broker, replica.fenced
    if broker in evidence.unregistered:
        return Eligibility(
            broker, ReplicaStanding.BARRED, f"b{broker} is not registered in the cluster"
        )
    if fenced is True:
        return _fenced(broker)
    if replica.log_dir_online is False:
        return Eligibility(
            broker, ReplicaStanding.BARRED, f"the log directory of b{broker} is offline"
        )
    if isinstance(replica.log_end, Unknown):
        return Eligibility(
            broker, ReplicaStanding.BY_HAND, f"loss unknown: {replica.log_end.reason}"
        )
    if isinstance(fenced, Unknown):
        reason = f"it is unknown whether b{broker} is fenced: {fenced.reason}"
        return Eligibility(broker, ReplicaStanding.DOUBTFUL, reason)
    return _eligible(broker)


@lru_cache(BROKERS_KNOWN)
def _eligible(broker: int) -> Eligibility:
    """The same for every partition: most replicas of a large cluster share these two."""
    return Eligibility(broker, ReplicaStanding.ELIGIBLE)


@lru_cache(BROKERS_KNOWN)
def _fenced(broker: int) -> Eligibility:
    return Eligibility(broker, ReplicaStanding.BARRED, f"b{broker} is fenced")


def live(replica: ReplicaLog) -> bool:
    """Whether the controller can elect it: not known to be fenced, nor its directory offline.

    A broker whose fencing is unknown counts, as do brokers in controlled shutdown, which no
    request shows: both are taken for able to win.
    """
    return replica.fenced is not True and replica.log_dir_online is not False


def answered(replica: ReplicaLog) -> bool:
    """Whether the end of the log is settled: the replica reported it, or has no disk to read."""
    return not isinstance(replica.log_end, Unknown) or replica.log_dir_online is False
