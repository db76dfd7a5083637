"""The words an operator types before anything is destroyed: what is meant, and its price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.errors import ConsentMissing
from services.model import TopicPartition, Unknown


@dataclass(frozen=True, slots=True)
class Price:
    """What an election of some partitions loses."""

    records: int | Unknown
    """Readable records, counted; what unread replicas hold is never part of it (R11)."""
    approximate: bool = False
    """A topic among them is compacted, so that offsets are not records."""

    def __str__(self) -> str:
        if isinstance(self.records, Unknown):
            return "unknown"
        return f"{'~' if self.approximate else ''}{self.records:,}"


def total_price(prices: Sequence[Price]) -> Price:
    """The price of all *prices* together; unknown as soon as one is."""
    records = 0
    for price in prices:
        if isinstance(price.records, Unknown):
            return price
        records += price.records
    return Price(records, any(price.approximate for price in prices))


def consent_phrase(targets: Sequence[TopicPartition], price: Price) -> str:
    """What has to be typed: ``orders-3 lose 50``; in bulk ``1,874 partitions lose 0``.

    Raises ValueError for no target: there is nothing to agree to.
    """
    if not targets:
        raise ValueError("consent needs a target")
    named = str(targets[0]) if len(targets) == 1 else f"{len(targets):,} partitions"
    return f"{named} lose {price}"


def require_consent(given: str | None, phrase: str) -> None:
    """Return if *given* is *phrase*, character for character.

    Raises:
        ConsentMissing: nothing was given, or something else; it carries the phrase.
    """
    if given == phrase:
        return
    if given is None:
        raise ConsentMissing(f"This needs your consent: type or pass exactly: {phrase}", phrase)
    raise ConsentMissing(
        f"The consent given is not the one needed, so nothing was done: type or pass exactly: "
        f"{phrase}",
        phrase,
    )
