"""What partitions were agreed to lose, read back from the prices in a journal. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

_PRICE = re.compile(r"(?P<about>~?)(?P<records>\d[\d,]{0,30})")


@dataclass(frozen=True, slots=True)
class TotalPrice:
    """The price of some partitions together."""

    records: int = 0
    """Of those whose price is known."""
    approximate: bool = False
    unknown: int = 0
    """Partitions that were agreed to at an unknown price."""
    said: int = 0
    """Partitions with a price, known or not; journals of other than elections name none."""
    abandons: tuple[int, ...] = ()
    """Brokers whose unread logs were given up, lowest id first; no price counts them."""
    unread_at_least: int = 0
    """Records known to be in none but unread logs, of the partitions where that was known."""
    unbounded: int = 0
    """Partitions of whose unread logs nothing was known."""

    def __str__(self) -> str:
        """``50``, ``~50``, ``50 + ? (2)``; ``-`` where no price was named.

        With what the price does not count: ``0, abandons b3, unread >= 20``.
        """
        if not self.said:
            return "-"
        known = f"{'~' if self.approximate else ''}{self.records:,}"
        counted = f"{known} + ? ({self.unknown:,})" if self.unknown else known
        return ", ".join(filter(None, (counted, self._uncounted())))

    def _uncounted(self) -> str:
        if not self.abandons and not self.unread_at_least:
            return ""
        named = ", ".join(f"b{broker}" for broker in self.abandons)
        return f"{f'abandons {named}, ' if named else ''}unread {self.unread_text}"

    @property
    def unread_text(self) -> str:
        """``>= 20``, ``>= 20 + ? (2)``, ``?``."""
        known = f">= {self.unread_at_least:,}"
        if not self.unbounded:
            return known
        return f"{known} + ? ({self.unbounded:,})" if self.unread_at_least else "?"


class Agreed(Protocol):
    """What was agreed to of one partition."""

    @property
    def price(self) -> str:
        """As journals write it: ``50``, ``~1,874``, ``unknown``."""

    @property
    def abandons(self) -> tuple[int, ...]: ...
    @property
    def unread_at_least(self) -> int | None: ...


def agreed_stake(agreed: Iterable[Agreed]) -> TotalPrice:
    """All that was *agreed* to, together."""
    found = tuple(agreed)
    bounds = [price.unread_at_least for price in found]
    return replace(
        stake_of(price.price for price in found),
        abandons=tuple(sorted({broker for price in found for broker in price.abandons})),
        unread_at_least=sum(bound for bound in bounds if bound is not None),
        unbounded=sum(bound is None for bound in bounds),
    )


def stake_of(prices: Iterable[object]) -> TotalPrice:
    """The sum of *prices* as journals write them: ``50``, ``~1,874``, ``unknown``."""
    records = unknown = said = 0
    approximate = False
    for price in prices:
        written = _PRICE.fullmatch(price) if isinstance(price, str) else None
        if written is not None:
            records += int(written["records"].replace(",", ""))
            approximate = approximate or written["about"] != ""
        elif price:
            unknown += 1
        said += bool(price)
    return TotalPrice(records, approximate, unknown, said)
