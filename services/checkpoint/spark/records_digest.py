"""What tells two copies of a partition apart, wherever their segments were cut.

Segments are cut where tasks end, so their hashes say nothing of another node's. What is compared
is the CRC-32 of all records one behind the other, put together from the CRCs that were taken
while each piece was written: nothing is read again.
"""

from __future__ import annotations

from collections.abc import Iterable

from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.segment_reader import MAGIC

POLYNOMIAL = 0xEDB88320
"""Of CRC-32, as zlib has it: the lowest bit is the highest power."""
ONE, EIGHTH_POWER = 1 << 31, 1 << 23
MASK = 2**32 - 1


def records_digest(parts: Iterable[SegmentPart]) -> str:
    """Count, size and CRC of the records of *parts*, in order, which tell their CRCs."""
    count = size = crc = 0
    for part in parts:
        assert part.records_crc is not None
        length = part.records_bytes - len(MAGIC)
        crc = joined(crc, part.records_crc, length)
        count, size = count + part.count, size + length
    return f"{count}-{size}-{crc:08x}"


def joined(first: int, second: int, length: int) -> int:
    """The CRC-32 of two pieces one behind the other, the second one of *length* bytes."""
    return _product(_power(length), first) ^ second


def _power(length: int) -> int:
    """The polynomial that moves a CRC past so many bytes, by repeated squaring."""
    found, square = ONE, EIGHTH_POWER
    while length:
        if length & 1:
            found = _product(square, found)
        square = _product(square, square)
        length >>= 1
    return found


def _product(one: int, other: int) -> int:
    """Of two polynomials over two elements, modulo that of the CRC."""
    found = 0
    while one:
        if one & ONE:
            found ^= other
        one = one << 1 & MASK
        other = other >> 1 ^ (POLYNOMIAL if other & 1 else 0)
    return found
