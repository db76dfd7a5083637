"""Reads Kafka's zigzag-encoded varints at many positions of some bytes at once.

Most lengths and differences have one byte or two: a table maps the two bytes to the number. If any
number is longer, all are read from the eight bytes at their places. Numbers of more than eight
bytes are left to the decoder of single records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

PADDING = 8
"""Bytes that must follow the last place, so that eight bytes can be read there."""
INT_BYTES = 5
"""The longest number of 32 bits."""

CONTINUES = 0x80
"""A byte of this value or more is not the last byte of its number."""
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
    """The bytes are rare, wide or damaged, and have to be decoded record by record."""


def _table() -> tuple[Longs, Longs]:
    """Each number of one byte or two, and its size, by the first two bytes there; else size 0."""
    low, high = np.divmod(np.arange(2**16), 2**8)[::-1]
    one, two = low < CONTINUES, high < CONTINUES
    raw = np.where(one, low, (low & 0x7F) | (high << 7))
    return _unfolded(raw), np.where(one, 1, np.where(two, 2, 0))


class Numbers:
    """Reads the numbers in an array of bytes that ends with `PADDING` unused bytes."""

    def __init__(self, content: Bytes) -> None:
        count = len(content) - PADDING + 1
        self._pairs: NDArray[np.uint16] = np.ndarray((count,), "<u2", content, strides=(1,))
        self._words: NDArray[np.uint64] = np.ndarray((count,), "<u8", content, strides=(1,))

    def ints(self, places: Longs) -> tuple[Longs, Longs]:
        """The numbers of 32 bits at *places*, and the positions after them.

        Raises:
            NotByColumns: a number is wider.
        """
        values, after = self.longs(places)
        if len(values) and (
            int((after - places).max()) > INT_BYTES
            or int(values.max()) > 2**31 - 1
            or int(values.min()) < -(2**31)
        ):
            raise NotByColumns
        return values, after

    def after_lengths(self, places: Longs) -> Longs:
        """The ends of the fields whose lengths are at *places*; every end is after its place.

        Raises:
            NotByColumns: a length is negative, or wider than 32 bits.
        """
        steps = _STEPS.take(self._pairs[places])
        if steps.all():
            return places + steps
        lengths, after = self.ints(places)
        if bool((lengths < 0).any()):
            raise NotByColumns
        return after + lengths

    def longs(self, places: Longs) -> tuple[Longs, Longs]:
        """The numbers of 64 bits at *places*, and the positions after them.

        Raises:
            NotByColumns: a number takes more than eight bytes.
        """
        pairs = self._pairs[places].astype(np.int64)
        sizes = _SIZES.take(pairs)
        if sizes.all():
            return _NUMBERS.take(pairs), places + sizes
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


_NUMBERS, _SIZES = _table()
_STEPS = np.where((_SIZES > 0) & (_NUMBERS >= 0), _SIZES + _NUMBERS, 0)
"""The distance from a length of one or two bytes to the end of its field; else 0."""


_GROUP = 7
_LIMITS = np.array([1 << bits for bits in range(_GROUP, 64, _GROUP)], np.uint64)
"""The first number that takes one more byte."""
_MORE = np.uint8(0x80)
_SEVEN = np.uint64(0x7F)


def sizes_of(numbers: Longs) -> Longs:
    """How many bytes each number takes."""
    return np.searchsorted(_LIMITS, _folded(numbers), side="right") + 1


def written(numbers: Longs) -> tuple[Bytes, Longs]:
    """The bytes of the numbers one after the other, and their bounds in these bytes."""
    folded = _folded(numbers)
    sizes = np.searchsorted(_LIMITS, folded, side="right") + 1
    bounds = np.append(0, np.cumsum(sizes))
    content = np.empty(int(bounds[-1]), np.uint8)
    at = bounds[:-1]
    while True:
        more = sizes > 1
        content[at] = (folded & _SEVEN).astype(np.uint8) | (more * _MORE)
        if not more.any():
            return content, bounds
        folded, at, sizes = folded[more] >> np.uint64(_GROUP), at[more] + 1, sizes[more] - 1


def _folded(numbers: Longs) -> NDArray[np.uint64]:
    folded: NDArray[np.uint64] = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return folded
