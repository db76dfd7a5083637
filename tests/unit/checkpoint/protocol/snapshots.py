"""Which snapshots a partition keeps, and how far its log may be compacted, while it is copied.

A snapshot is the partition's state with a claim of how far it had processed. It is taken while
processing goes on, so the state may be ahead of the claim: the director gives up those that
could be, around a checkpoint.

These are the ZEP's rules for brokers that keep snapshots. On Kafka none are kept, so the product
has no such code; the simulation needs it to run the ZEP's algorithm whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot by its claim."""

    id: str
    processed: int
    """All records up to this position are in the state; what else is, is not known."""


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshots of one partition, and where its log begins."""

    stored: tuple[Snapshot, ...] = ()
    """Oldest first."""
    locks: frozenset[tuple[str, int]] = frozenset()
    """Ids of snapshots, each with the checkpoint it is locked for: two may need the same one.
    In memory alone, so a new owner has none."""
    compacted: int = 0
    """The log's records up to this position are gone."""

    @property
    def latest(self) -> Snapshot | None:
        return self.stored[-1] if self.stored else None


@dataclass(frozen=True, slots=True)
class NotLocked:
    """No snapshot can be the base of the copy."""

    reason: str


def admits(snapshot: Snapshot, checkpoint_position: int, last_written: int) -> bool:
    """Whether the director may commit *snapshot*, which was taken beside processing.

    Its state may hold what was processed after the checkpoint, while its claim is before it: a
    copy based on it would hold more than the checkpoint. *last_written* is the end of the log
    when the state was taken.
    """
    return not snapshot.processed <= checkpoint_position < last_written


def commit(snapshots: Snapshots, snapshot: Snapshot) -> Snapshots:
    """Store a snapshot, and let go what is older."""
    latest = snapshots.latest
    if latest is not None and latest.processed >= snapshot.processed:
        return snapshots
    return compact(replace(snapshots, stored=(*snapshots.stored, snapshot)))


def lock(
    snapshots: Snapshots, checkpoint: int, checkpoint_position: int
) -> tuple[Snapshots, Snapshot | NotLocked]:
    """Keep the latest snapshot and the log behind it, for a copy up to the position."""
    latest = snapshots.latest
    if latest is None:
        return snapshots, NotLocked("the partition has no snapshot")
    if latest.processed >= checkpoint_position:
        reason = (
            f"the snapshot holds everything up to position {latest.processed}, "
            f"and the checkpoint is at {checkpoint_position}"
        )
        return snapshots, NotLocked(reason)
    return replace(snapshots, locks=snapshots.locks | {(latest.id, checkpoint)}), latest


def unlock(snapshots: Snapshots, checkpoint: int) -> Snapshots:
    """Let go what was locked for a checkpoint, and everything that was kept for its sake."""
    kept = frozenset(pair for pair in snapshots.locks if pair[1] != checkpoint)
    return compact(replace(snapshots, locks=kept))


def change_owner(snapshots: Snapshots) -> Snapshots:
    """What a new owner finds: no lock outlives the process that held it."""
    return replace(snapshots, locks=frozenset())


def compact(snapshots: Snapshots) -> Snapshots:
    """Remove snapshots that are neither the latest nor locked, and the log before the rest."""
    latest = snapshots.latest
    locked = {id for id, _ in snapshots.locks}
    kept = tuple(
        snapshot for snapshot in snapshots.stored if snapshot == latest or snapshot.id in locked
    )
    first = min((snapshot.processed for snapshot in kept), default=snapshots.compacted)
    return replace(snapshots, stored=kept, compacted=max(first, snapshots.compacted))
