"""Whether a terminal has room for what is agreed to: nothing is asked for that is not shown.

What is elected has to be seen while its phrase is typed: the headline, a line of the table, the
phrase and its field. What else is told takes the lines that are left. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TABLE_LINES = 3
"""The header and two partitions."""
CANCEL_LINES = 1
LEAST_WIDTH = 40
"""Characters in which the table has who is elected."""
TOO_SMALL = "The terminal is too small to show what is elected: enlarge it to 80x24."


@dataclass(frozen=True, slots=True)
class ScreenRoom:
    """The screen between its two bars."""

    width: int
    height: int

    def shows(self, *needed: int) -> bool:
        """Whether texts of so many lines, the table and the way out stand on it together."""
        return self.width >= LEAST_WIDTH and self._left(needed) >= 0

    def shared(self, needed: Iterable[int], wanted: Sequence[int]) -> list[int]:
        """How many lines each of the other texts gets, of those it wants, the first one first."""
        left = max(self._left(needed), 0)
        given = []
        for lines in wanted:
            given.append(min(lines, left))
            left -= given[-1]
        return given

    def _left(self, needed: Iterable[int]) -> int:
        return self.height - sum(needed) - TABLE_LINES - CANCEL_LINES
