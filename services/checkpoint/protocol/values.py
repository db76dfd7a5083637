"""The common vocabulary of a checkpoint: its records, its copies, and their statuses.

A checkpoint is a logical point in time that its id names. It has one position in each partition;
the copies of a partition up to that position, one by each node that copied, are the partition's
backup. ZEP-008 defines the terms and rules.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """All that is known about one partition's backup."""

    partition: int
    copies: tuple[Copy, ...] = ()
    failure: str | None = None
    """Why no copy counts, whatever the copies say: the verdict on the partition."""
