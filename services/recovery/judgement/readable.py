"""What consumers could read of a replica if it led: its log up to the first corrupt batch.

A leader serves a corrupt batch as it lies on disk, and consumers stop there. Followers still
truncate by what the leader's log holds, so only a choice of the replica is judged by this.
"""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.model import EpochHistory, EpochRange, LogContents, ReplicaLog, Unknown


def readable(replica: ReplicaLog) -> ReplicaLog:
    """*replica* as if it ended at its first corrupt batch; the same where none is known."""
    end, limit = replica.log_end, replica.corrupt_at
    if limit is None or isinstance(end, Unknown) or end <= limit:
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
            EpochRange(one.epoch, one.start, min(one.end, limit))
            for one in history.ranges
            if one.start < limit
        ]
    )
    return EpochHistory(kept, min(history.complete_from, limit))


def corruption(replica: ReplicaLog) -> str:
    """What its corrupt batch means if it leads; empty where none is known."""
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
    return "its contents were read whole"


def contents_read(replica: ReplicaLog) -> bool:
    """Whether any of its contents was read."""
    return isinstance(replica.contents, LogContents)
