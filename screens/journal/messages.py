"""What the threads of the Journal screen report to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from breakglass.services.guard.journal import UnreadableJournal
    from breakglass.services.incident.election_words import Sighting
    from breakglass.services.recovery.ledger.page import LedgerPage
    from breakglass.services.recovery.timeline.account import Account, Brief
    from breakglass.services.recovery.timeline.ending import PartitionEnding


@dataclass(eq=False)
class JournalsListed(Message):
    """The journals of the cluster, and what was seen of it, have been looked for."""

    journals: Sequence[Brief | UnreadableJournal | Sighting]
    trouble: str = ""
    """Why they could not be; empty when they were."""


@dataclass(eq=False)
class JournalRead(Message):
    """The journal of *brief* has been read."""

    brief: Brief
    account: Account | None
    """None when it could not be read: *trouble* says why."""
    endings: Sequence[PartitionEnding]
    trouble: str


@dataclass(eq=False)
class JournalChecked(Message):
    """The cluster was asked again what became of a journal's unknown steps."""

    told: str
    _: KW_ONLY
    unsettled: int = 0
    """How many are still unknown."""
    trouble: bool = False
    """It could not be asked."""


@dataclass(eq=False)
class LedgerMade(Message):
    """The ledger of a journal was made."""

    page: LedgerPage | None
    """None when it could not be made: *trouble* says why."""
    name: str = ""
    """Of its journal."""
    trouble: str = ""


@dataclass(eq=False)
class TimelineSaved(Message):
    """A timeline or a ledger was written to *path*, or was not, for *trouble*."""

    path: Path | None = None
    trouble: str = ""
