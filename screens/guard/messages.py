"""What a guarded act reports to its page from its thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.message import Message

from breakglass.services.guard.act import Underway

if TYPE_CHECKING:
    from breakglass.services.errors import BreakglassError
    from breakglass.services.guard.act import ActEvent, Change, Ending, Frozen


@dataclass(eq=False)
class GuardMessage(Message):
    """A report of a worker; the page drops reports of an older *attempt*."""

    attempt: int


@dataclass(eq=False)
class ActFrozen(GuardMessage):
    """What would be done; with *changed*, what was agreed to is no longer so."""

    frozen: Frozen[Any]
    changed: tuple[Change, ...] = ()


@dataclass(eq=False)
class ActReported(GuardMessage):
    """The act has come to *event*."""

    event: ActEvent

    def can_replace(self, message: Message) -> bool:
        both = isinstance(message, ActReported) and isinstance(self.event, Underway)
        return both and isinstance(message.event, Underway)  # type: ignore[attr-defined]


@dataclass(eq=False)
class ActFailed(GuardMessage):
    """The act ended with an error; None: it was given up before anything was done."""

    error: BreakglassError | None
    begun: bool
    """Something may have been done."""


@dataclass(eq=False)
class ActEnded(GuardMessage):
    """The act has ended by itself."""

    ending: Ending


@dataclass(eq=False)
class FollowEnded(GuardMessage):
    """What came after the act has ended, too."""

    text: str
    good: bool
