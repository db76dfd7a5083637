"""The request for a backup of a command topic, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from breakglass.services.metastore.settings import Style


@dataclass(frozen=True, slots=True)
class BackupJob:
    """What is backed up, and how."""

    topic: str
    location: Path
    style: Style = Style.KLIP
    follow: bool = False
    fail_on_difference: bool = False
    checked: bool = True
    """Say which commands a restore refuses; reading them again takes longer than comparing them."""


@dataclass(slots=True)
class BackupOutcome:
    """The result of a run."""

    file: str = ""
    commands: int = 0
    """The number of commands that topic and backup have in common."""
    appended: int = 0
    next_offset: int = 0
    alarms: int = 0
    shorter: bool = False
    """The topic ends before the backup does."""
    refused: int = 0
    """Lines of the file that `verify` and a restore refuse."""
