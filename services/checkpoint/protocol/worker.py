"""What copies a partition: when it begins, begins anew, gives up, and what a new owner cleans up.

Each node writes its own copies alone. A failure is final; the verdict on a partition stands
above all its copies, for a worker that was cut off may still complete its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from breakglass.services.checkpoint.protocol.status import DIFFERENT_COPIES, partition_failure
from breakglass.services.checkpoint.protocol.values import Copy, CopyId, PartitionBackup, Status

RETRIES = 3
"""How often copying is tried again after an error of input or output."""
OWNER_CHANGED = "the partition's owner changed before the copy was completed"


class Begin(StrEnum):
    """What to do about a copy that is asked for."""

    COPY = "copy"
    COPY_ANEW = "copy again"
    """Remove what this node has of it first: it did not get to the end."""
    SKIP = "skip"
    """This node's copy is complete."""
    REFUSE = "refuse"
    """It failed before, and a failure is final."""


def begin(backup: PartitionBackup, id: CopyId) -> Begin:
    """What the worker of *id*'s node does, given all that is known of the partition's backup.

    A copy of another node's changes nothing unless it failed: its completion may not be waited
    for, since the node may be gone.
    """
    own = next((one.status for one in backup.copies if one.id == id), Status.DOES_NOT_EXIST)
    if partition_failure(backup) is not None:
        return Begin.REFUSE
    if own is Status.COMPLETED:
        return Begin.SKIP
    if any(one.status is Status.FAILED for one in backup.copies):
        return Begin.REFUSE
    return Begin.COPY_ANEW if own is Status.ONGOING else Begin.COPY


@dataclass(frozen=True, slots=True)
class CopyAttempt:
    """Copying that goes on."""

    id: CopyId
    position: int | None
    errors: int = 0


def after_error(attempt: CopyAttempt, reason: str) -> CopyAttempt | Copy:
    """Try again, or record the failure."""
    if attempt.errors < RETRIES:
        return replace(attempt, errors=attempt.errors + 1)
    return Copy(attempt.id, Status.FAILED, attempt.position, reason=reason)


def after_completion(backup: PartitionBackup, completed: Copy) -> str | None:
    """The verdict on the partition that a completed copy calls for; None where it is in order.

    Another node's completed copy has to hold the same records (scenario 3).
    """
    others = (one for one in backup.copies if one.status is Status.COMPLETED)
    differ = any(one.digest != completed.digest for one in others)
    return DIFFERENT_COPIES if differ else None


def unfinished(backups: Iterable[tuple[int, PartitionBackup]], last: int) -> tuple[int, ...]:
    """The checkpoints whose backup of this partition a new owner has to fail.

    *backups* are those of all checkpoints that were ever asked for, by id, whether anything is
    there of the partition or not; *last* is the partition's last checkpoint. Nobody takes copies
    of that one and of those before it any more, so what is not completed never will be.
    """
    found = {last: PartitionBackup(0)} | dict(backups)
    return tuple(id for id, backup in sorted(found.items()) if id <= last and not _decided(backup))


def _decided(backup: PartitionBackup) -> bool:
    completed = any(one.status is Status.COMPLETED for one in backup.copies)
    return completed or backup.failure is not None
