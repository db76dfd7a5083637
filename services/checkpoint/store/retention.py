"""Plans which checkpoints may be deleted; pure, and off unless a limit is set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.stored import StoredCheckpoint


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits. A checkpoint may be deleted when it exceeds either limit."""

    keep: int | None = None
    """Keep this many of the newest completed checkpoints, and all newer than the last of them."""
    older_than_ms: int | None = None
    """Checkpoints older than this may be deleted."""


@dataclass(frozen=True, slots=True)
class RetentionCandidate:
    """A checkpoint as retention sees it."""

    id: int
    status: Status
    created_at_ms: int | None


def candidates(stored: Iterable[StoredCheckpoint]) -> list[RetentionCandidate]:
    """Those that can be read: what has happened to the others, nothing here decides."""
    read = (checkpoint for checkpoint in stored if checkpoint.unread is None)
    return [RetentionCandidate(one.id, one.status, one.created_at_ms) for one in read]


def expired(
    checkpoints: Iterable[RetentionCandidate], retention: Retention, now_ms: int
) -> tuple[int, ...]:
    """The ids that may be deleted, oldest first.

    Never the newest completed checkpoint, nor an ongoing one.
    """
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.id)
    completed = [candidate.id for candidate in ordered if candidate.status is Status.COMPLETED]
    newest = completed[-1] if completed else None
    return tuple(
        candidate.id
        for candidate in ordered
        if candidate.id != newest
        and candidate.status is not Status.ONGOING
        and (_too_many(candidate, completed, retention) or _too_old(candidate, retention, now_ms))
    )


def _too_many(one: RetentionCandidate, completed: list[int], retention: Retention) -> bool:
    if retention.keep is None or len(completed) < max(retention.keep, 1):
        return False
    return one.id < completed[-max(retention.keep, 1)]


def _too_old(one: RetentionCandidate, retention: Retention, now_ms: int) -> bool:
    if retention.older_than_ms is None or one.created_at_ms is None:
        return False
    return one.created_at_ms < now_ms - retention.older_than_ms
