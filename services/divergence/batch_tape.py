"""Record batches as a tape: checked by their CRC, and believed only where no offset is missing.

Offsets are in no checksum. They are taken for true where each batch begins where the one before
ended and holds a record for each of its offsets, as logs do that were not compacted, or are not
yet that far.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from breakglass.services.divergence.byte_source import Reach, TapeForm
from breakglass.services.topic_backup.batch_header import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_MASK,
)
from breakglass.services.topic_backup.summary import EpochStart

LENGTH = struct.Struct(">qi")
"""BaseOffset, BatchLength."""


@dataclass(frozen=True, slots=True)
class BatchPiece:
    """Whole batches."""

    data: bytes
    begin: int
    end: int
    limit: int
    """No batch that reaches beyond this offset is told of."""
    plain: bool
    """What belongs to transactions ends it: how those ended is not in these bytes."""

    def reach(self, begin: int, end: int, at: int) -> Reach:
        """How far batches of ``data[begin:end]`` go on from *at*, the first of them perhaps older.

        Ends at the first whose CRC differs, or that has not a record for each of its offsets.
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


class Batches(NamedTuple):
    """Bytes as they were read: whole batches from *begin* to *end*, perhaps others around them."""

    data: bytes
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class BatchTape:
    """Batches in order."""

    read: Iterable[Batches]
    limit: int
    plain: bool
    epochs: tuple[EpochStart, ...] = ()
    """They are in the bytes."""
    form: TapeForm = TapeForm.BATCHES

    def pieces(self) -> Iterator[BatchPiece]:
        """As they are read."""
        for one in self.read:
            yield BatchPiece(*one, self.limit, self.plain)


class Whole(NamedTuple):
    """The whole batches that some bytes begin with."""

    size: int
    """Bytes of them."""
    next_offset: int
    """One past the last offset of the last one; 0 without any."""
    needed: int
    """Bytes that the batch behind them claims; 0: nothing is there, or what cannot be."""


def whole_batches(data: bytes) -> Whole:
    """How far *data* are whole batches, by their lengths alone."""
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
    """Where the first batch that reaches beyond *offset* begins; *size* bytes are whole ones."""
    begin = 0
    while begin < size and _behind(data, begin) <= offset:
        begin += LENGTH_END + int(LENGTH.unpack_from(data, begin)[1])
    return begin


def _behind(data: bytes, begin: int) -> int:
    """One past the last offset of the batch that begins there."""
    if begin < 0:
        return 0
    base, _, _, _, _, _, last_delta, *_ = BATCH_HEADER.unpack_from(data, begin)
    return int(base) + int(last_delta) + 1
