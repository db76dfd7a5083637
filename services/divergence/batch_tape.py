"""Record batches as a raw log: each is checked by its CRC, and no offset may be missing.

A batch's CRC does not cover its offsets. They are trusted where each batch begins where the
previous batch ended and has a record for each of its offsets, as in a log that is not compacted.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from breakglass.services.divergence.source import Reach
from breakglass.services.record_batches import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_MASK,
)

LENGTH = struct.Struct(">qi")
"""BaseOffset, BatchLength."""


@dataclass(frozen=True, slots=True)
class BatchPiece:
    """Whole batches."""

    data: bytes
    begin: int
    end: int
    limit: int
    """Batches that reach beyond this offset are not reported."""
    plain: bool
    """The raw log ends at a transactional batch: these bytes do not say how transactions ended."""

    def reach(self, begin: int, end: int, at: int) -> Reach:
        """How far the batches of ``data[begin:end]`` continue from *at*; the first may be older.

        Ends at the first batch whose CRC differs, or that lacks a record for one of its offsets.
        """
        import google_crc32c

        entries, data = 0, self.data
        while begin + BATCH_HEADER.size <= end:
            base, length, _, magic, crc, attributes, last_delta, *_, count = (
                BATCH_HEADER.unpack_from(data, begin)
            )
            behind = begin + LENGTH_END + length
            following = base + last_delta + 1
            if behind > end or not base <= at < following <= self.limit:
                break
            if magic != MAGIC or count != last_delta + 1:
                break
            if self.plain and attributes & TRANSACTIONAL_MASK:
                break
            if google_crc32c.value(data[begin + ATTRIBUTES_AT : behind]) != crc:
                break
            entries += following - at
            begin, at = behind, following
        return Reach(at, entries, begin == end)


class Whole(NamedTuple):
    """The whole batches at the beginning of some bytes."""

    size: int
    next_offset: int
    """One past the last offset of the last batch; 0 if there is no batch."""
    needed: int
    """Length that the following batch claims; 0 if there is none, or an impossible length."""


def whole_batches(data: bytes) -> Whole:
    """The whole batches that *data* begins with, by their length fields alone."""
    begin, last, size = 0, -1, len(data)
    while begin + LENGTH.size <= size:
        _, length = LENGTH.unpack_from(data, begin)
        needed = LENGTH_END + length
        if needed < BATCH_HEADER.size:
            return Whole(begin, _behind(data, last), 0)
        if begin + needed > size:
            return Whole(begin, _behind(data, last), needed)
        begin, last = begin + needed, begin
    return Whole(begin, _behind(data, last), 0)


def first_reaching(data: bytes, size: int, offset: int) -> int:
    """Position of the first batch that reaches beyond *offset*; *size* bytes are whole batches."""
    begin = 0
    while begin < size and _behind(data, begin) <= offset:
        begin += LENGTH_END + int(LENGTH.unpack_from(data, begin)[1])
    return begin


def _behind(data: bytes, begin: int) -> int:
    """One past the last offset of the batch at *begin*."""
    if begin < 0:
        return 0
    base, _, _, _, _, _, last_delta, *_ = BATCH_HEADER.unpack_from(data, begin)
    return int(base) + int(last_delta) + 1
