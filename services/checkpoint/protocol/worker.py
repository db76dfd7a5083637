"""The worker that copies a partition: when it begins, restarts, gives up, and cleans up.

Each node writes only its own copies. A failure is final; the verdict on a partition overrides all
its copies, because an isolated worker may still complete its own copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from breakglass.services.checkpoint.protocol.status import DIFFERENT_COPIES, partition_failure
from breakglass.services.checkpoint.protocol.values import Copy, CopyId, PartitionBackup, Status

RETRIES = 3
"""How often a copy is retried after an I/O error."""
OWNER_CHANGED = "the partition's owner changed before the copy was completed"


class Begin(StrEnum):
    """The action on a requested copy."""

    COPY = "copy"
    COPY_ANEW = "copy again"
    """Remove what this node has copied first: the copy is incomplete."""
    SKIP = "skip"
    """This node's copy is complete."""
    REFUSE = "refuse"
    """The copy failed before, and a failure is final."""


def begin(backup: PartitionBackup, id: CopyId) -> Begin:
    """The action of the worker of *id*'s node, given all that is known of the partition's backup.

    Another node's copy changes nothing unless it failed: a worker must not wait for its completion,
    because that node may be gone.
    """
    own = next((copy.status for copy in backup.copies if copy.id == id), Status.DOES_NOT_EXIST)
    if partition_failure(backup) is not None:
        return Begin.REFUSE
    if own is Status.COMPLETED:
        return Begin.SKIP
    if any(copy.status is Status.FAILED for copy in backup.copies):
        return Begin.REFUSE
    return Begin.COPY_ANEW if own is Status.ONGOING else Begin.COPY


@dataclass(frozen=True, slots=True)
class CopyAttempt:
    """A copy in progress."""

    id: CopyId
    position: int | None
    errors: int = 0


def after_error(attempt: CopyAttempt, reason: str) -> CopyAttempt | Copy:
    """Retry, or record the failure."""
    if attempt.errors < RETRIES:
        return replace(attempt, errors=attempt.errors + 1)
    return Copy(attempt.id, Status.FAILED, attempt.position, reason=reason)


def after_completion(backup: PartitionBackup, completed: Copy) -> str | None:
    """The verdict on the partition that a completed copy requires; None if the copies agree.

    Another node's completed copy must contain the same records (scenario 3).
    """
    others = (copy for copy in backup.copies if copy.status is Status.COMPLETED)
    differ = any(other.digest != completed.digest for other in others)
    return DIFFERENT_COPIES if differ else None


def unfinished(backups: Iterable[tuple[int, PartitionBackup]], last: int) -> tuple[int, ...]:
    """The checkpoints whose backup of this partition a new owner must record as failed.

    *backups* has, by id, every checkpoint that was ever requested, even without files of the
    partition; *last* is the partition's last checkpoint. No process copies *last* or earlier
    checkpoints any more, so an incomplete copy of them stays incomplete.
    """
    found = {last: PartitionBackup(0)} | dict(backups)
    return tuple(id for id, backup in sorted(found.items()) if id <= last and not _decided(backup))


def _decided(backup: PartitionBackup) -> bool:
    completed = any(copy.status is Status.COMPLETED for copy in backup.copies)
    return completed or backup.failure is not None
