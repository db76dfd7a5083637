"""The order in which replicas should lead: last written epoch, log end, assignment (R8).

A log with a corrupt batch ranks as if it ended there, because its consumers stop there.

A later epoch outranks a longer log because an epoch's leader was elected over all earlier
ones: a longer log of an older epoch carries a tail that was already voted away. That is the
order of Raft elections too, and no majority stands behind it here, so the module `loss` says
separately what each choice costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.model import PartitionEvidence, ReplicaLog, Unknown
from breakglass.services.recovery.judgement.eligibility import (
    Eligibility,
    ReplicaStanding,
    replica_eligibility,
)
from breakglass.services.recovery.judgement.readable import readable

EMPTY_REMARK = "EMPTY: disk replaced?"

_UNPROVEN, _UNREAD, _WITHOUT_RECORDS = -1, -2, -3
"""Take the place of an epoch in `log_rank`."""


@dataclass(frozen=True, slots=True)
class RankedReplica:
    """A replica in its place in the ranking."""

    replica: ReplicaLog
    eligibility: Eligibility
    remark: str = ""
    """What is odd about it (R21); may be empty."""

    @property
    def broker(self) -> int:
        return self.replica.broker


@dataclass(frozen=True, slots=True)
class Ranking:
    """All replicas of a partition: the recommendable ones best first, then the others."""

    candidates: tuple[RankedReplica, ...]
    unproven: str = ""
    """Why the order is not proven (R8); empty when it is."""

    @property
    def winner(self) -> RankedReplica | None:
        """The best replica that may be recommended."""
        first = self.candidates[0] if self.candidates else None
        return first if first is not None and first.eligibility.recommendable else None

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(candidate.broker for candidate in self.candidates)

    @property
    def recommendable(self) -> tuple[int, ...]:
        """Brokers that may be recommended, best first."""
        return tuple(c.broker for c in self.candidates if c.eligibility.recommendable)

    def candidate(self, broker: int) -> RankedReplica | None:
        """The candidate on *broker*, if it is assigned there."""
        return next((one for one in self.candidates if one.broker == broker), None)


def rank(evidence: PartitionEvidence) -> Ranking:
    """Rank the replicas of one partition.

    Recommendable replicas come first, by `log_rank` and then by assignment; the others follow
    in the same manner. The order of ``evidence.replicas`` plays no part.
    """
    longest = max((_known_end(replica) for replica in evidence.replicas), default=0)
    candidates = [
        RankedReplica(replica, replica_eligibility(evidence, replica), _remark(replica, longest))
        for replica in evidence.replicas
    ]
    if len(candidates) > 1:
        order = evidence.state.assignment
        candidates.sort(key=lambda one: _place(one, order))
    return Ranking(tuple(candidates), _unproven(candidates))


def log_rank(replica: ReplicaLog) -> tuple[int, int]:
    """What ranks a log, higher is better: (last written epoch, log end offset).

    Below every known epoch, so that a proven order is never turned around, come logs of
    unknown epoch, then those that could not be read, and last those without records (R8).
    """
    end = replica.log_end
    if isinstance(end, Unknown):
        return (_UNREAD, 0)
    if not holds_records(replica):
        return (_WITHOUT_RECORDS, end)
    epoch = replica.last_written_epoch
    return (_UNPROVEN, end) if epoch is None or isinstance(epoch, Unknown) else (epoch, end)


def holds_records(replica: ReplicaLog) -> bool:
    """Whether the log is not known to be without records."""
    end, start = replica.log_end, replica.log_start
    if isinstance(end, Unknown):
        return True
    if isinstance(start, Unknown):
        return end > 0
    return end > start


def election_order(evidence: PartitionEvidence, ranking: Ranking, designee: int) -> tuple[int, ...]:
    """The whole assignment as the order to write: *designee*, then best to worst (R4).

    A designee that is fenced meanwhile loses to the next in this order, so the rest is ranked
    by content alone: known records, then what could not be read, then logs without records.
    """
    order = evidence.state.assignment
    rest = [one for one in ranking.candidates if one.broker != designee]
    rest.sort(key=lambda one: _by_content(one.replica, order))
    return (designee, *(one.broker for one in rest))


def _place(candidate: RankedReplica, order: tuple[int, ...]) -> tuple[int, ...]:
    standing = _STANDING_ORDER[candidate.eligibility.standing]
    return (standing, *_by_content(candidate.replica, order))


def _by_content(replica: ReplicaLog, order: tuple[int, ...]) -> tuple[int, ...]:
    """By what can be read of it; of logs that are corrupt from the same offset on, by the rest."""
    whole_epoch, whole_end = epoch, end = log_rank(replica)
    if replica.corrupt_at is not None:
        epoch, end = log_rank(readable(replica))
    return (-epoch, -end, -whole_epoch, -whole_end, _position(replica.broker, order))


_STANDING_ORDER = {
    ReplicaStanding.ELIGIBLE: 0,
    ReplicaStanding.DOUBTFUL: 0,
    ReplicaStanding.BY_HAND: 1,
    ReplicaStanding.BARRED: 2,
}


def _position(broker: int, order: tuple[int, ...]) -> int:
    return order.index(broker) if broker in order else len(order)


def _known_end(replica: ReplicaLog) -> int:
    return 0 if isinstance(replica.log_end, Unknown) else replica.log_end


def _remark(replica: ReplicaLog, longest: int) -> str:
    if replica.corrupt_at is not None:
        return f"corrupt at {replica.corrupt_at:,}"
    return EMPTY_REMARK if replica.log_end == 0 and longest > 0 else ""


def _unproven(candidates: list[RankedReplica]) -> str:
    """R8: an unknown epoch among recommendable replicas whose ends differ."""
    ends = set()
    unread = None
    for one in candidates:
        if not one.eligibility.recommendable or not holds_records(one.replica):
            continue
        ends.add(readable(one.replica).log_end)
        if unread is None and log_rank(one.replica)[0] < 0:
            unread = one.replica
    if unread is None or len(ends) < 2:
        return ""
    return f"epoch unproven: {_why_unread(unread)}"


def _why_unread(replica: ReplicaLog) -> str:
    epochs = replica.epochs
    if isinstance(epochs, Unknown):
        return epochs.reason
    return f"the records of b{replica.broker} carry no leader epoch"
