"""What replicas reported earlier and no longer report, kept only where it still bounds them.

A partition without leader takes no record, and a new leader raises the leader
epoch. So what a replica reported while the partition was offline bounds its log for
as long as topic id and leader epoch are the same: since then its log can only have lost records,
by retention, by recovery after a crash or with its disk. That holds if the broker itself knew
that epoch when it reported its log (`inputs.proof_of_no_more`): a broker that is cut off from the
controllers may take itself for the leader of an older epoch, and continue to serve producers with
acks=1.
Sources: ReplicaManager.applyLocalFollowersDelta, PartitionRegistration.merge of Kafka 4.3.1.

Records that an operator copies into a log folder by hand are not seen by this.
"""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.model import PartitionEvidence, ReplicaLog, Unknown


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
