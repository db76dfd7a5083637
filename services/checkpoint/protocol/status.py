"""Derives the status of a partition's backup, and of a checkpoint, from the statuses of copies."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from breakglass.services.checkpoint.protocol.values import Copy, PartitionBackup, Status

MAY_FOLLOW = {
    Status.DOES_NOT_EXIST: frozenset({Status.ONGOING, Status.FAILED}),
    Status.ONGOING: frozenset({Status.COMPLETED, Status.FAILED}),
    Status.COMPLETED: frozenset({Status.FAILED}),
    Status.FAILED: frozenset[Status](),
}
"""The statuses that may follow each status. A copy can be removed in any status."""
RANKED = (Status.DOES_NOT_EXIST, Status.FAILED, Status.ONGOING, Status.COMPLETED)
"""Of several copies of a partition, the status that is furthest right counts."""
DIFFERENT_COPIES = "two completed copies of the partition do not hold the same records"


def may_become(before: Status, after: Status) -> bool:
    """Whether the status of a copy may change from *before* to *after*."""
    return after in MAY_FOLLOW.get(before, ())


def counting_copy(backup: PartitionBackup) -> Copy | None:
    """The copy that represents the partition: the best status, then the lowest node."""
    ordered = sorted(backup.copies, key=lambda copy: (-RANKED.index(copy.status), copy.id.node))
    return ordered[0] if ordered else None


def partition_failure(backup: PartitionBackup) -> str | None:
    """Why the partition has no backup and never will; None if it has or may have a backup."""
    if backup.failure is not None:
        return backup.failure
    if _completed_differ(backup.copies):
        return DIFFERENT_COPIES
    best = counting_copy(backup)
    if best is None or best.status is not Status.FAILED:
        return None
    return best.reason or "no reason was given"


def partition_status(backup: PartitionBackup) -> Status:
    """The status of one partition's backup."""
    if partition_failure(backup) is not None:
        return Status.FAILED
    best = counting_copy(backup)
    return Status.DOES_NOT_EXIST if best is None else best.status


def checkpoint_status(partitions: Iterable[Status]) -> Status:
    """The status of a checkpoint from all its partitions, in Zeebe's order of precedence."""
    found = frozenset(partitions)
    if Status.FAILED in found:
        return Status.FAILED
    if Status.DOES_NOT_EXIST in found and found & {Status.ONGOING, Status.COMPLETED}:
        return Status.INCOMPLETE
    if Status.ONGOING in found:
        return Status.ONGOING
    if Status.DOES_NOT_EXIST in found or not found:
        return Status.DOES_NOT_EXIST
    return Status.COMPLETED


def _completed_differ(copies: Collection[Copy]) -> bool:
    digests = {copy.digest for copy in copies if copy.status is Status.COMPLETED}
    return len(digests) > 1
