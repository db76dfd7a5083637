"""A course of counts in one line of blocks; `screens.ascii` has a sign for each of them."""

from __future__ import annotations

from collections.abc import Sequence

LEVELS = "▁▂▃▄▅▆▇█"
"""The lowest is zero and nothing else, so that a single partition can be seen among thousands."""
GAP = " "


def sparkline(values: Sequence[int | None]) -> str:
    """One block for each of *values*, the highest as high as can be; None leaves a gap."""
    highest = max((value for value in values if value is not None), default=0)
    return "".join(GAP if value is None else _level(value, highest) for value in values)


def _level(value: int, highest: int) -> str:
    if value <= 0:
        return LEVELS[0]
    top = len(LEVELS) - 1
    return LEVELS[max(1, -(-value * top // highest))]
