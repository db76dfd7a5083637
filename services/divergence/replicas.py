"""Chooses two replicas of a partition to compare, and states what their epochs already prove."""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.source import Extent
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionEvidence, ReplicaLog, TopicPartition, Unknown, known
from breakglass.services.recovery.judgement.lineage import Divergences
from breakglass.services.recovery.judgement.loss import Loss, ReplicaLoss, loss_of


@dataclass(frozen=True, slots=True)
class Facing:
    """Two replicas of one partition that can be read."""

    partition: TopicPartition
    left: ReplicaLog
    right: ReplicaLog
    divergence: int | Unknown
    """First offset at which the two logs may differ, by their epochs."""
    compacted: bool | Unknown
    """Offsets may be missing on one side only: each replica compacts its log by itself."""

    @property
    def extent(self) -> Extent:
        """From the first offset of either replica to the last."""
        one, other = _extent(self.left), _extent(self.right)
        return Extent(min(one.start, other.start), max(one.end, other.end))

    @property
    def begin(self) -> int:
        """Where to look first: at the divergence, or at the start if the divergence is unknown."""
        return self.extent.start if isinstance(self.divergence, Unknown) else self.divergence

    @property
    def proven_same(self) -> Extent | None:
        """Offsets that need no reading: a common epoch means the same records (log matching)."""
        if self.compacted is not False or isinstance(self.divergence, Unknown):
            return None
        start = max(_extent(self.left).start, _extent(self.right).start)
        return Extent(start, self.divergence) if start < self.divergence else None


def readable(evidence: PartitionEvidence) -> tuple[ReplicaLog, ...]:
    """The replicas whose log can be compared: both its start and its end are known."""
    return tuple(
        replica
        for replica in evidence.replicas
        if known(replica.log_start) and known(replica.log_end)
    )


def face(evidence: PartitionEvidence, left: int, right: int) -> Facing | Unknown:
    """The replicas on two brokers; Unknown, with the reason, where one cannot be read."""
    one, other = evidence.replica(left), evidence.replica(right)
    for broker, log in ((left, one), (right, other)):
        if log is None:
            return Unknown(f"b{broker} holds no replica of {evidence.partition}")
        for figure in (log.log_start, log.log_end):
            if isinstance(figure, Unknown):
                return Unknown(f"b{broker} cannot be compared: {figure.reason}")
    assert one is not None
    assert other is not None
    divergence = Divergences(evidence.replicas).between(one, other)
    return Facing(evidence.partition, one, other, divergence, evidence.settings.compacted)


def default_pair(evidence: PartitionEvidence, best: int | None) -> tuple[int, int] | Unknown:
    """The best replica, and the replica that loses most if the best is elected.

    Unknown, with the reason, where fewer than two can be read.
    """
    brokers = [log.broker for log in readable(evidence)]
    if len(brokers) < 2:
        held = ", ".join(f"b{broker}" for broker in brokers) or "none"
        return Unknown(
            f"two replicas are needed to compare, and of {evidence.partition} can be read: {held}"
        )
    chosen = best if best in brokers else brokers[0]
    loss = loss_of(evidence, chosen)
    others = [broker for broker in brokers if broker != chosen]
    return chosen, max(others, key=lambda broker: _lost(loss, broker))


def comparison_of(facing: Facing, sender: Sender) -> Comparison:
    """The comparison of two replicas, read from their brokers on demand."""
    gapless = facing.compacted is False
    left, right = (
        ReplicaSource(sender, log.broker, facing.partition, _extent(log), gapless)
        for log in (facing.left, facing.right)
    )
    return Comparison(left, right, facing.proven_same)


def _lost(loss: Loss, broker: int) -> int:
    """How many records the replica on *broker* would drop; an unknown number counts as 0."""
    found: ReplicaLoss | None = loss.of(broker)
    if found is None:
        return 0
    return sum(number for number in (found.tail, found.head) if isinstance(number, int))


def _extent(log: ReplicaLog) -> Extent:
    start = log.log_start if known(log.log_start) else 0
    end = log.log_end if known(log.log_end) else start
    return Extent(start, end)
