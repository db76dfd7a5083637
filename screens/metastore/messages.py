"""What the Metastore screen is told by its threads."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from services.model import Unknown

if TYPE_CHECKING:
    from services.metastore.looking import ServiceLook
    from services.metastore.restore.plan import MetastoreRestorePlan


@dataclass(eq=False)
class ServiceLooked(Message):
    """A ksqlDB service has been looked at, or the reason why not."""

    topic: str
    look: ServiceLook | Unknown


@dataclass(eq=False)
class RestorePlanned(Message):
    """What the restore of a command topic would do."""

    plan: MetastoreRestorePlan


@dataclass(eq=False)
class RestoreTold(Message):
    """A restore begins its next step."""

    step: str


@dataclass(eq=False)
class RestoreEnded(Message):
    """A restore has ended, or was never begun."""

    outcome: str
    _: KW_ONLY
    good: bool
