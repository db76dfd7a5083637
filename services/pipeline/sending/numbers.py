"""Kafka's zigzag numbers of variable length, written for many numbers at once. Pure.

The other way round than `batches.varints`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.pipeline.batches.varints import Bytes, Longs

_GROUP = 7
_LIMITS = np.array([1 << bits for bits in range(_GROUP, 64, _GROUP)], np.uint64)
"""The first number that takes a byte more."""
_CONTINUES = np.uint8(0x80)
_SEVEN = np.uint64(0x7F)


def sizes_of(numbers: Longs) -> Longs:
    """How many bytes each number takes."""
    return np.searchsorted(_LIMITS, _folded(numbers), side="right") + 1


def written(numbers: Longs) -> tuple[Bytes, Longs]:
    """The bytes of the numbers one after the other, where each begins, and where the last ends."""
    folded = _folded(numbers)
    sizes = np.searchsorted(_LIMITS, folded, side="right") + 1
    bounds = np.append(0, np.cumsum(sizes))
    content = np.empty(int(bounds[-1]), np.uint8)
    at = bounds[:-1]
    while True:
        more = sizes > 1
        content[at] = (folded & _SEVEN).astype(np.uint8) | (more * _CONTINUES)
        if not more.any():
            return content, bounds
        folded, at, sizes = folded[more] >> np.uint64(_GROUP), at[more] + 1, sizes[more] - 1


def _folded(numbers: Longs) -> NDArray[np.uint64]:
    folded: NDArray[np.uint64] = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return folded
