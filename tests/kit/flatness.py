"""Whether a program's memory stayed flat: the last quarter of a run beside the second."""

from collections.abc import Sequence
from statistics import median

GROWTH, SLACK_BYTES = 1.03, 2_000_000
"""Memory is flat if the median of the last quarter is at most this above that of the second. In the
first quarter a program loads what it needs."""


def quarters(sizes: Sequence[int]) -> list[int]:
    """The median in bytes of each quarter of *sizes*, which were read at even intervals.

    Raises ValueError where there are fewer than four.
    """
    step = len(sizes) // 4
    if not step:
        raise ValueError("four sizes or more have four quarters")
    cuts = [0, step, 2 * step, 3 * step, len(sizes)]
    return [int(median(sizes[cuts[at] : cuts[at + 1]])) for at in range(4)]


def is_flat(sizes: Sequence[int]) -> bool:
    """Whether *sizes*, in bytes, grew no more from the second quarter to the last than allowed."""
    _, second, _, last = quarters(sizes)
    return last <= second * GROWTH + SLACK_BYTES
