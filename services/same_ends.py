"""Where two long sequences differ most of whose values are the very same ones.

A cluster of 200,000 partitions of which one has changed is to cost what that one costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import indexOf, is_
from typing import TypeVar

T = TypeVar("T")


def differing(before: Sequence[T], now: Sequence[T]) -> tuple[slice, slice]:
    """The parts of both between the very same values at their beginnings and at their ends."""
    least = min(len(before), len(now))
    front = _alike(before, now, least)
    back = _alike(reversed(before), reversed(now), least - front)
    return slice(front, len(before) - back), slice(front, len(now) - back)


def _alike(before: Iterable[T], now: Iterable[T], most: int) -> int:
    """How many values, of *most*, are the very same ones until the first that is not."""
    try:
        return indexOf(islice(map(is_, before, now), most), False)
    except ValueError:
        return most
