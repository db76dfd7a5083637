"""The order in which replicas should lead: last written epoch, log end, assignment (R8).

A later epoch outranks a longer log because the leader of an epoch was elected over all earlier
epochs: a longer log of an older epoch has a tail that was already voted away. Raft elections use
the same order, but no majority vouches for it here, so the module `loss` says separately what
each choice costs.

A log with a corrupt batch ranks as if it ended there: a leader serves the batch as it lies on
disk, and consumers stop at it. Followers still truncate by the whole log of the leader, so only
the replica that is chosen is judged by its readable part.

Which replicas may be designated leader, and why the others may not (R16, KIP-1275).
The controller elects only assigned replicas that are unfenced and whose log directory is
online. What it thinks of a broker is not what our own network says: a broker that does not
answer us may well be elected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    LogContents,
    PartitionEvidence,
    ReplicaLog,
    Unknown,
)
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


def readable(replica: ReplicaLog) -> ReplicaLog:
    """*replica* as if it ended at its first corrupt batch; the same where none is known."""
    return replica if replica.corrupt_at is None else clipped(replica, replica.corrupt_at)


def clipped(replica: ReplicaLog, limit: int) -> ReplicaLog:
    """*replica* without what it has from offset *limit* on."""
    end = replica.log_end
    if isinstance(end, Unknown) or end <= limit:
        return replica
    mark, epochs = replica.high_watermark, replica.epochs
    return replace(
        replica,
        log_end=limit,
        high_watermark=mark if isinstance(mark, Unknown) else min(mark, limit),
        epochs=epochs if isinstance(epochs, Unknown) else _clipped(epochs, limit),
    )


def _clipped(history: EpochHistory, limit: int) -> EpochHistory:
    kept = tuple(
        [
            EpochRange(range_.epoch, range_.start, min(range_.end, limit))
            for range_ in history.ranges
            if range_.start < limit
        ]
    )
    return EpochHistory(kept, min(history.complete_from, limit))


def corruption(replica: ReplicaLog) -> str:
    """What a corrupt batch of the replica means if it leads; empty where none is known."""
    if replica.corrupt_at is None:
        return ""
    return (
        f"b{replica.broker} holds a corrupt batch at offset {replica.corrupt_at:,}: consumers stop "
        "there"
    )


def how_far_read(replica: ReplicaLog) -> str:
    """``its contents were read back to offset 80``, to stand after a sentence about *replica*."""
    contents = replica.contents
    if isinstance(contents, Unknown):
        return contents.reason
    if contents.corrupt_at is not None:
        return f"its contents are corrupt at offset {contents.corrupt_at:,}"
    if isinstance(replica.log_end, int) and contents.verified_to < replica.log_end:
        return (
            f"of its contents only {contents.verified_from:,}..{contents.verified_to:,} was read: "
            f"{contents.stopped}"
        )
    if contents.stopped:
        return f"its contents were read back to offset {contents.verified_from:,}"
    return "all its contents were read"


def contents_read(replica: ReplicaLog) -> bool:
    """Whether any contents of the replica were read."""
    return isinstance(replica.contents, LogContents)


EMPTY_REMARK = "EMPTY: disk replaced?"

_UNPROVEN, _UNREAD, _WITHOUT_RECORDS = -1, -2, -3
"""Take the place of an epoch in `log_rank`."""


@quickly_made
@dataclass(frozen=True, slots=True)
class RankedReplica:
    """A replica in its place in the ranking."""

    replica: ReplicaLog
    eligibility: Eligibility
    remark: str = ""
    """What is unusual about the replica (R21); may be empty."""

    @property
    def broker(self) -> int:
        return self.replica.broker


@quickly_made
@dataclass(frozen=True, slots=True)
class Ranking:
    """All replicas of a partition: the recommendable ones best first, then the others."""

    candidates: tuple[RankedReplica, ...]
    unproven: str = ""
    """Why the order is not proven (R8); empty when it is."""

    @property
    def winner(self) -> RankedReplica | None:
        """The best replica that may be recommended."""
        if not self.candidates:
            return None
        first = self.candidates[0]
        return first if first.eligibility.recommendable else None

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(candidate.broker for candidate in self.candidates)

    @property
    def recommendable(self) -> tuple[int, ...]:
        """Brokers that may be recommended, best first."""
        return tuple(c.broker for c in self.candidates if c.eligibility.recommendable)

    def candidate(self, broker: int) -> RankedReplica | None:
        """The candidate on *broker*, if it is assigned there."""
        return next(
            (candidate for candidate in self.candidates if candidate.broker == broker), None
        )


def rank(evidence: PartitionEvidence) -> Ranking:
    """Rank the replicas of one partition.

    Recommendable replicas come first, by `log_rank` and then by assignment; the others follow
    in the same manner. The order of ``evidence.replicas`` plays no part.
    """
    order, unproven = evidence.state.assignment, False
    placed = []
    for number, replica in enumerate(evidence.replicas):
        held = log_rank(replica)
        unproven = unproven or held[0] == _UNPROVEN
        standing = replica_eligibility(evidence, replica)
        place = (_precedence(standing), *_by_content(replica, held, order))
        candidate = RankedReplica(replica, standing, _remark(replica, evidence.replicas))
        placed.append((place, number, candidate))
    placed.sort()
    candidates = tuple([candidate for _, _, candidate in placed])
    return Ranking(candidates, _unproven(candidates) if unproven else "")


def log_rank(replica: ReplicaLog) -> tuple[int, int]:
    """What ranks a log, higher is better: (last written epoch, log end offset).

    Below every known epoch, so that a proven order is never turned around, come logs of
    unknown epoch, then those that could not be read, and last those without records (R8).
    """
    end = replica.log_end
    if isinstance(end, Unknown):
        return (_UNREAD, 0)
    start = replica.log_start
    if end <= (0 if isinstance(start, Unknown) else start):
        return (_WITHOUT_RECORDS, end)
    epochs = replica.epochs
    if isinstance(epochs, EpochHistory) and epochs.ranges:
        return (epochs.ranges[-1].epoch, end)
    return (_UNPROVEN, end)


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

    A designee that is fenced in the meantime loses to the next in this order, so the rest is ranked
    by content alone: known records, then what could not be read, then logs without records.
    """
    order = evidence.state.assignment
    rest = [candidate for candidate in ranking.candidates if candidate.broker != designee]
    rest.sort(
        key=lambda candidate: _by_content(candidate.replica, log_rank(candidate.replica), order)
    )
    return (designee, *(candidate.broker for candidate in rest))


def _by_content(
    replica: ReplicaLog, held: tuple[int, int], order: tuple[int, ...]
) -> tuple[int, ...]:
    """Rank by the readable part; logs that are corrupt from the same offset rank by the rest."""
    whole_epoch, whole_end = epoch, end = held
    if replica.corrupt_at is not None:
        epoch, end = log_rank(readable(replica))
    broker = replica.broker
    position = order.index(broker) if broker in order else len(order)
    return (-epoch, -end, -whole_epoch, -whole_end, position)


def _precedence(standing: Eligibility) -> int:
    """Those that may be recommended come first, the barred last."""
    if standing.recommendable:
        return 0
    return 1 if standing.standing is ReplicaStanding.BY_HAND else 2


def _remark(replica: ReplicaLog, replicas: tuple[ReplicaLog, ...]) -> str:
    corrupt_at, end = replica.corrupt_at, replica.log_end
    if corrupt_at is not None:
        return f"corrupt at {corrupt_at:,}"
    if isinstance(end, Unknown) or end:
        return ""
    longer = any(isinstance(other.log_end, int) and other.log_end > 0 for other in replicas)
    return EMPTY_REMARK if longer else ""


def _unproven(candidates: tuple[RankedReplica, ...]) -> str:
    """R8: an unknown epoch among recommendable replicas whose ends differ."""
    ends = set()
    unread = None
    for candidate in candidates:
        if not candidate.eligibility.recommendable or not holds_records(candidate.replica):
            continue
        ends.add(readable(candidate.replica).log_end)
        if unread is None and log_rank(candidate.replica)[0] < 0:
            unread = candidate.replica
    if unread is None or len(ends) < 2:
        return ""
    return f"epoch unproven: {_why_unread(unread)}"


def _why_unread(replica: ReplicaLog) -> str:
    epochs = replica.epochs
    if isinstance(epochs, Unknown):
        return epochs.reason
    return f"the records of b{replica.broker} carry no leader epoch"
