"""What a backup of a command topic is asked to do, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from breakglass.services.metastore.names import Style


@dataclass(frozen=True, slots=True)
class BackupJob:
    """What is backed up, and how."""

    topic: str
    location: Path
    style: Style = Style.KLIP
    follow: bool = False
    fail_on_difference: bool = False


@dataclass(slots=True)
class BackupOutcome:
    """What a run came to."""

    file: str = ""
    commands: int = 0
    """That topic and backup have in common."""
    appended: int = 0
    next_offset: int = 0
    alarms: int = 0
    shorter: bool = False
    """The topic ends before the backup does."""
