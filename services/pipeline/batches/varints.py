"""Kafka's zigzag numbers of variable length, read at many places of some bytes at once. Pure.

A number is read from the eight bytes at its place, so numbers of more than 56 bits are left to
the decoder that reads record by record.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

PADDING = 8
"""Bytes that have to follow the last place, so that eight can be read there."""
INT_BYTES = 5
"""A number of 32 bits has no more."""

_CONTINUES = np.uint64(0x8080808080808080)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_JOINS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""How groups of 7, 14 and 28 bits are moved together."""
_ONE = np.uint64(1)


class NotByColumns(Exception):
    """The bytes have to be decoded record by record: they are rare, wide or damaged."""


class Numbers:
    """The numbers that begin in some bytes, of which the last `PADDING` ones are no content."""

    def __init__(self, content: Bytes) -> None:
        self._bytes = content
        self._words: NDArray[np.uint64] = np.ndarray(
            (len(content) - PADDING + 1,), "<u8", content, strides=(1,)
        )

    def ints(self, places: Longs) -> tuple[Longs, Longs]:
        """The numbers of 32 bits at *places*, and where what follows them begins.

        Raises:
            NotByColumns: one of them is wider.
        """
        values, after = self.longs(places)
        if len(values) and (int((after - places).max()) > INT_BYTES or _wide(values)):
            raise NotByColumns
        return values, after

    def longs(self, places: Longs) -> tuple[Longs, Longs]:
        """The numbers of 64 bits at *places*, and where what follows them begins.

        Raises:
            NotByColumns: one of them takes more than eight bytes.
        """
        first = self._bytes[places]
        if not len(first) or int(first.max()) < 0x80:
            return _unfolded(first.astype(np.int64)), places + 1
        words = self._words[places]
        stops = ~words & _CONTINUES
        if not stops.all():
            raise NotByColumns
        # The bits below the highest one of the last byte.
        own = (stops & (~stops + _ONE)) - _ONE
        sizes = (np.bitwise_count(own).astype(np.int64) + 1) >> 3
        return _unfolded(_joined(words & own).astype(np.int64)), places + sizes


def _joined(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The groups of seven bits of *words* without the bits between them."""
    words = words & _SEVENS
    for low, high, shift in _JOINS:
        words = (words & low) | ((words & high) >> shift)
    return words


def _unfolded(raw: Longs) -> Longs:
    return (raw >> 1) ^ -(raw & 1)


def _wide(values: Longs) -> bool:
    return int(values.max()) > 2**31 - 1 or int(values.min()) < -(2**31)
