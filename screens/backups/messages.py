"""What the Backups screen is told by its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from breakglass.services.backup_watch.lines import BackupSurvey
    from breakglass.services.backup_watch.live_ends import LiveEnds


@dataclass(eq=False)
class BackupsSurveyed(Message):
    """What is known of the places of backups has been judged."""

    made: BackupSurvey


@dataclass(eq=False)
class BackupEndsRead(Message):
    """The cluster has told where backed-up topics end now, or why it did not."""

    ends: LiveEnds | Unknown
