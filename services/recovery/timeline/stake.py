"""What partitions were agreed to lose, read back from the prices in a journal. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PRICE = re.compile(r"(?P<about>~?)(?P<records>\d[\d,]{0,30})")


@dataclass(frozen=True, slots=True)
class Stake:
    """The price of some partitions together."""

    records: int = 0
    """Of those whose price is known."""
    approximate: bool = False
    unknown: int = 0
    """Partitions that were agreed to at an unknown price."""
    said: int = 0
    """Partitions with a price, known or not; journals of other than elections name none."""

    def __str__(self) -> str:
        """``50``, ``~50``, ``50 + ? (2)``; ``-`` where no price was named."""
        if not self.said:
            return "-"
        known = f"{'~' if self.approximate else ''}{self.records:,}"
        return f"{known} + ? ({self.unknown:,})" if self.unknown else known


def stake_of(prices: Iterable[object]) -> Stake:
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
    return Stake(records, approximate, unknown, said)
