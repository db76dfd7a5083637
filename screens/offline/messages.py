"""What the threads of the screens of offline partitions and rescues report to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from textual.message import Message

if TYPE_CHECKING:
    from breakglass.services.incident.listing import Listing
    from breakglass.services.incident.row import IncidentRow
    from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress
    from breakglass.services.recovery.rescue.return_check import ReturnCheck
    from breakglass.services.recovery.rescue.spans import AtRisk


@dataclass(eq=False)
class ListingMade(Message, bubble=False):
    """The offline partitions have been filtered, sorted and grouped, in a thread."""

    generation: int
    listing: Listing
    whole: WholeListing


class WholeListing(NamedTuple):
    """All rows of an incident, listed by urgency."""

    rows: Sequence[IncidentRow]
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


@dataclass(eq=False)
class ReturnChecked(Message, bubble=False):
    """What a dead broker would lose has been read, or why it cannot be."""

    check: ReturnCheck | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be saved."""

    at_risk: tuple[AtRisk, ...]
    """Partitions of which electing the recommended replica cuts something off."""
    offsets: int
    """To be copied at most."""
    brokers: tuple[int, ...]
    """They are read."""
    without: int
    """Partitions that lose nothing, or have nobody to be elected."""
    folder: Path
    nothing: str
    """Said where there is nothing to be saved."""
    remarks: tuple[str, ...] = ()
    """What is not saved, or is to be known besides."""

    @classmethod
    def of(
        cls,
        elected: Sequence[AtRisk],
        without: int,
        folder: Path,
        *,
        nothing: str,
        remarks: tuple[str, ...] = (),
    ) -> Prepared:
        """What leaders would cut off; takes a while for many, and reads nothing."""
        from breakglass.services.recovery.rescue.rescue import divide

        shares, unclear = divide(elected)
        losing = {*shares, *unclear}
        endangered = tuple([one for one in elected if one.partition in losing])
        held = [share for together in shares.values() for share in together]
        return cls(
            endangered,
            sum(share.offsets for share in held),
            tuple(sorted({share.replica.broker for share in held})),
            without + len(elected) - len(endangered),
            folder,
            nothing,
            remarks,
        )

    @property
    def partitions(self) -> int:
        return len(self.at_risk)
