"""What everything of a checkpoint speaks: its records, its copies, and their statuses.

A checkpoint is the logical point in time, named by its id. In each partition it has one
position; the copies of a partition up to there, one by each node that made one, are its backup.
Words and rules: ZEP-008.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NO_CHECKPOINT = 0
"""The id before the first checkpoint; real ids are greater."""
LARGEST_ID = 2**63 - 1
"""That headers of records and names of files can hold."""
LARGEST_ASKED = 10**18
"""Id that can be named: those that follow one by one never come to the end."""


class Intent(StrEnum):
    """What a checkpoint record in a partition's log says."""

    CREATE = "create"
    """The command: its position is the checkpoint's."""
    CREATED = "created"
    IGNORED = "ignored"
    """Follows a command whose id is not greater than that of the partition's checkpoint."""


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A record of a checkpoint in a partition's log."""

    intent: Intent
    id: int
    position: int
    """Of the command: its own position, or that of the command it follows."""


class Status(StrEnum):
    """How far a copy, a partition's backup or a whole checkpoint is."""

    DOES_NOT_EXIST = "doesNotExist"
    ONGOING = "ongoing"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    """Of a whole checkpoint: some partitions have a backup, and others have none at all."""


@dataclass(frozen=True, slots=True, order=True)
class CopyId:
    """Which copy: Backup[N][p][b] of the ZEP."""

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
    """SHA-256 of the records up to the position; known of a completed copy."""
    reason: str | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """Everything that is known of one partition's backup."""

    partition: int
    copies: tuple[Copy, ...] = ()
    failure: str | None = None
    """Why no copy counts, whatever its node says of it: the verdict on the partition."""
