"""The states of copies and checkpoints, and the rules by which a worker changes them.

The common vocabulary of a checkpoint: its records, its copies, and their statuses.

A checkpoint is a logical point in time that its id names. It has one position in each partition;
the copies of a partition up to that position, one by each node that copied, are the partition's
backup. ZEP-008 defines the terms and rules.

Derives the status of a partition's backup, and of a checkpoint, from the statuses of copies.

The worker that copies a partition: when it begins, restarts, gives up, and cleans up.

Each node writes only its own copies. A failure is final; the verdict on a partition overrides all
its copies, because an isolated worker may still complete its own copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

NO_CHECKPOINT = 0
"""The id before the first checkpoint; real ids are greater."""
LARGEST_ID = 2**63 - 1
"""The greatest id that record headers and file names can hold."""
LARGEST_ASKED = 10**18
"""The greatest id that a user may name: ids that follow it one by one never run out."""


class Intent(StrEnum):
    """The intent of a checkpoint record in a partition's log."""

    CREATE = "create"
    """The command: its position is the checkpoint's position."""
    CREATED = "created"
    IGNORED = "ignored"
    """Follows a command whose id is not greater than the id of the partition's checkpoint."""


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A record of a checkpoint in a partition's log."""

    intent: Intent
    id: int
    position: int
    """The command's position: the record's own, or the position of the command that it follows."""


class Status(StrEnum):
    """The progress of a copy, of a partition's backup or of a whole checkpoint."""

    DOES_NOT_EXIST = "doesNotExist"
    ONGOING = "ongoing"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    """For a whole checkpoint: some partitions have a backup, others have none."""


@dataclass(frozen=True, slots=True, order=True)
class CopyId:
    """Identifies a copy: Backup[N][p][b] of the ZEP."""

    checkpoint: int
    partition: int
    node: int


@dataclass(frozen=True, slots=True)
class Copy:
    """One node's copy of one partition up to the checkpoint's position."""

    id: CopyId
    status: Status
    position: int | None = None
    """The checkpoint's position; None for a failure that was recorded before any copying."""
    digest: str | None = None
    """SHA-256 of the records up to the position; set for a completed copy."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """All that is known about one partition's backup."""

    partition: int
    copies: tuple[Copy, ...] = ()
    failure: str | None = None
    """Why no copy counts, whatever the copies say: the verdict on the partition."""


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
    digests = {copy.digest for copy in backup.copies if copy.status is Status.COMPLETED}
    if len(digests) > 1:
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
    return tuple(
        id
        for id, backup in sorted(found.items())
        if id <= last
        and backup.failure is None
        and all(copy.status is not Status.COMPLETED for copy in backup.copies)
    )
