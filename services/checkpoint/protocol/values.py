"""The values of checkpoints, and what the owner of a partition and the coordinator do with them.

A checkpoint is a logical point in time that its id names. It has one position in each partition;
the copies of a partition up to that position, one by each node that copied, are the partition's
backup. ZEP-008 defines the terms and rules.

Each node writes only its own copies. A failure is final; the verdict on a partition overrides all
its copies, because an isolated worker may still complete its own copy.

The owner's part is pure state transitions of the BCS algorithm. Each takes the partition's state
and an event, and returns the required actions, in order. `receive` and `process_create` are the
ZEP's two steps, for logs to which only the owner writes. On Kafka a sender writes to the log
directly, so the record that carries an id is both message and command: `read` combines the two
steps, and participants call it for each record.

The coordinator asks every partition for a checkpoint until each has started. After a crash only the
record of received answers is lost: the next coordinator asks all partitions again, and each answers
that it has already started.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The last checkpoint of a partition."""

    id: int = NO_CHECKPOINT
    position: int = 0


@dataclass(frozen=True, slots=True)
class AppendCreate:
    """Append ``checkpoint:create`` of this id to the partition's log."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class AppendCommand:
    """Append the received command; skipped if an append before it failed."""


@dataclass(frozen=True, slots=True)
class TakeCopy:
    """Start to copy the partition up to this position, without waiting for the copy."""

    checkpoint: int
    position: int


@dataclass(frozen=True, slots=True)
class AppendFollowUp:
    """Append this event, which follows the command."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Answer the client that requested the checkpoint, if there is a client."""

    checkpoint: int
    state: CheckpointState
    """The partition's last checkpoint: the requested or a later checkpoint."""
    started: bool
    """False: an earlier request or a message has already started it."""


Arrival: TypeAlias = AppendCreate | AppendCommand
Effect: TypeAlias = TakeCopy | AppendFollowUp | Acknowledge


def receive(state: CheckpointState, id: int) -> tuple[Arrival, ...]:
    """A command arrives from another partition that had checkpoint *id* when it sent the command.

    This is the forced checkpoint: its record precedes the command, so that the checkpoint contains
    the command only if it contains the sender's part too.
    """
    if state.id < id:
        return (AppendCreate(id), AppendCommand())
    return (AppendCommand(),)


def process_create(
    state: CheckpointState, command: CheckpointRecord
) -> tuple[CheckpointState, tuple[Effect, ...]]:
    """The partition processes a ``checkpoint:create``.

    The copy starts before the event is written: if the owner dies in between, its successor
    processes the command again, and no event exists without a copy.
    """
    if state.id >= command.id:
        ignored = CheckpointRecord(Intent.IGNORED, state.id, state.position)
        answer = Acknowledge(command.id, state, started=False)
        return state, (AppendFollowUp(ignored), answer)
    after = CheckpointState(command.id, command.position)
    created = CheckpointRecord(Intent.CREATED, after.id, after.position)
    return after, (
        TakeCopy(after.id, after.position),
        AppendFollowUp(created),
        Acknowledge(command.id, after, started=True),
    )


def read(
    state: CheckpointState, id: int, position: int
) -> tuple[CheckpointState, tuple[Effect, ...]]:
    """A record that carries *id* is read from the log; everything before *position* is processed.

    The actions precede the processing of the record (H3): its outputs carry the id of the state
    that is returned.
    """
    state_after, effects = state, tuple[Effect, ...]()
    for arrival in receive(state, id):
        if isinstance(arrival, AppendCreate):
            command = CheckpointRecord(Intent.CREATE, arrival.checkpoint, position)
            state_after, effects = process_create(state, command)
    return state_after, effects


def replay(state: CheckpointState, event: CheckpointRecord) -> CheckpointState:
    """A new owner reads a former owner's event: it takes no copy."""
    if event.intent is Intent.CREATED and event.id > state.id:
        return CheckpointState(event.id, event.position)
    return state


@dataclass(frozen=True, slots=True)
class NotHigher:
    """The id is not greater than all earlier ids."""

    requested: int
    latest: int

    @property
    def message(self) -> str:
        """The message in Zeebe's words."""
        return (
            f"Requested backup has id {self.requested}. The latest backup has id {self.latest}. "
            "A backupId is an integer and must be greater than the ID of previous backups that "
            "are completed, failed, or deleted. Zeebe does not take two backups with the same "
            "ids."
        )


@dataclass(frozen=True, slots=True)
class Take:
    """A checkpoint request in progress."""

    id: int
    partitions: tuple[int, ...]
    started: frozenset[int] = frozenset()
    superseded: int | None = None
    """The greatest id that a partition had already passed when it was asked."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The partitions that have not answered; to be asked first and again."""
        return tuple(partition for partition in self.partitions if partition not in self.started)

    @property
    def acknowledged(self) -> bool:
        """Whether the client may receive the answer that the checkpoint has started."""
        return not self.missing and self.superseded is None

    @property
    def refusal(self) -> NotHigher | None:
        """The answer for the client instead: a partition saw a greater id before this one."""
        return None if self.superseded is None else NotHigher(self.id, self.superseded)


def take(id: int, partitions: Sequence[int], seen: Iterable[int]) -> Take | NotHigher:
    """Begin with a new id, which must be greater than all of *seen*: deleted and failed too."""
    latest = max(seen, default=0)
    if id <= latest:
        return NotHigher(id, latest)
    return Take(id, tuple(partitions))


def acknowledge(take: Take, partition: int, answer: Acknowledge) -> Take:
    """A partition has answered; repeated answers and answers to another take change nothing."""
    if answer.checkpoint != take.id or partition not in take.partitions:
        return take
    if answer.state.id > take.id:
        greatest = max(take.superseded or 0, answer.state.id)
        return replace(take, superseded=greatest)
    return replace(take, started=take.started | {partition})


def status(partitions: Sequence[int], backups: Iterable[PartitionBackup]) -> Status:
    """The status of a checkpoint of these *partitions*, from the known backups of each."""
    known = {backup.partition: backup for backup in backups}
    return checkpoint_status(
        partition_status(known.get(partition, PartitionBackup(partition)))
        for partition in partitions
    )
