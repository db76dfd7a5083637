"""What the screens of offline partitions and rescues are told by their threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from breakglass.screens.offline.prepared import Prepared
    from breakglass.services.incident.listing import Listing
    from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress


@dataclass(eq=False)
class ListingMade(Message, bubble=False):
    """The offline partitions have been filtered, sorted and grouped, in a thread."""

    generation: int
    listing: Listing


@dataclass(eq=False)
class RescuePrepared(Message):
    """What a rescue would save has been worked out."""

    prepared: Prepared


class RescueMoved(Message):
    """A rescue has copied more."""

    def __init__(self, progress: RescueProgress) -> None:
        super().__init__()
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RescueMoved)


@dataclass(eq=False)
class RescueFinished(Message):
    """A rescue is over: one result for each partition."""

    results: Sequence[RescuedPartition]
