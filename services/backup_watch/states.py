"""One word on how a topic's backup stands, the worst first."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from breakglass.services.backup_watch.job import Life, SeenJob
from breakglass.services.backup_watch.location import TopicHeld


class BackupState(StrEnum):
    """The words, in the order of their urgency."""

    UNREADABLE = "unreadable"
    """Its manifest cannot be read."""
    DAMAGED = "damaged"
    """Files are gone or too short, or the last verification found damage or differences."""
    LOST = "lost"
    """Offsets are missing that were not removed by compaction or transactions."""
    RUNNING = "running"
    """A job copies it now."""
    BARE = "no manifest"
    """A backup of the original's: only its files can be looked at."""
    UNVERIFIED = "unverified"
    """Nobody has verified the last commit."""
    VERIFIED = "verified"


def state_of(held: TopicHeld, running: Collection[str] = ()) -> BackupState:
    """The word for *held*; *running* are the topics that jobs copy now."""
    status = held.status
    if status is None:
        return BackupState.UNREADABLE
    if status.damaged:
        return BackupState.DAMAGED
    if held.lost:
        return BackupState.LOST
    if held.newest and held.topic in running:
        return BackupState.RUNNING
    if status.commit is None:
        return BackupState.BARE
    return BackupState.VERIFIED if status.verified_now else BackupState.UNVERIFIED


def running_topics(jobs: Collection[SeenJob], url: str) -> frozenset[str]:
    """The topics that jobs on the backups at *url* copy at the moment."""
    return frozenset(
        one.job.topic for one in jobs if one.life is Life.RUNNING and one.job.url == url
    )
