"""From the statuses of copies to that of a partition's backup, and of a whole checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from breakglass.services.checkpoint.protocol.values import Copy, PartitionBackup, Status

MAY_FOLLOW = {
    Status.DOES_NOT_EXIST: frozenset({Status.ONGOING, Status.FAILED}),
    Status.ONGOING: frozenset({Status.COMPLETED, Status.FAILED}),
    Status.COMPLETED: frozenset({Status.FAILED}),
    Status.FAILED: frozenset[Status](),
}
"""What may become of a copy. It is removed from any status."""
RANKED = (Status.DOES_NOT_EXIST, Status.FAILED, Status.ONGOING, Status.COMPLETED)
"""Of several copies of a partition, the one that is furthest right counts."""
DIFFERENT_COPIES = "two completed copies of the partition do not hold the same records"


def may_become(before: Status, after: Status) -> bool:
    """Whether a copy that is *before* may be *after* next."""
    return after in MAY_FOLLOW.get(before, ())


def counting_copy(backup: PartitionBackup) -> Copy | None:
    """The copy that stands for the partition: the best one, of several the lowest node's."""
    ordered = sorted(backup.copies, key=lambda one: (-RANKED.index(one.status), one.id.node))
    return ordered[0] if ordered else None


def partition_failure(backup: PartitionBackup) -> str | None:
    """Why the partition has no backup and will have none; None where it has or may have one."""
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
    """The status of a checkpoint over those of all its partitions, in the order Zeebe decides."""
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
    digests = {one.digest for one in copies if one.status is Status.COMPLETED}
    return len(digests) > 1
