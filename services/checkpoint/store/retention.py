"""Which checkpoints may go: pure planning, off unless a limit is set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from breakglass.services.checkpoint.protocol.values import Status


@dataclass(frozen=True, slots=True)
class Retention:
    """What is to be kept. A checkpoint goes when either limit lets it go."""

    keep: int | None = None
    """So many of the newest completed ones, and whatever is newer than the last of them."""
    older_than_ms: int | None = None
    """Those may go that are older than this long."""


@dataclass(frozen=True, slots=True)
class RetentionCandidate:
    """A checkpoint as retention sees it."""

    id: int
    status: Status
    created_at_ms: int | None


def expired(
    checkpoints: Iterable[RetentionCandidate], retention: Retention, now_ms: int
) -> tuple[int, ...]:
    """The ids that may be deleted, oldest first.

    Never the newest completed one, nor any that is ongoing.
    """
    ordered = sorted(checkpoints, key=lambda one: one.id)
    completed = [one.id for one in ordered if one.status is Status.COMPLETED]
    newest = completed[-1] if completed else None
    return tuple(
        one.id
        for one in ordered
        if one.id != newest
        and one.status is not Status.ONGOING
        and (_too_many(one, completed, retention) or _too_old(one, retention, now_ms))
    )


def _too_many(one: RetentionCandidate, completed: list[int], retention: Retention) -> bool:
    if retention.keep is None or len(completed) < max(retention.keep, 1):
        return False
    return one.id < completed[-max(retention.keep, 1)]


def _too_old(one: RetentionCandidate, retention: Retention, now_ms: int) -> bool:
    if retention.older_than_ms is None or one.created_at_ms is None:
        return False
    return one.created_at_ms < now_ms - retention.older_than_ms
