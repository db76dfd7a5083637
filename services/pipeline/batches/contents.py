"""The records of several batches, checked and decompressed, in one piece of memory.

Uncompressed records stay in the fetched bytes, without a copy. The start of each record follows
from the length of the record before it. Many short batches are walked side by side, one record of
each at a time; few long batches are walked one after the other, which costs less for each record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from breakglass.services.pipeline.batches.table import BatchTable
from breakglass.services.pipeline.batches.varints import (
    PADDING,
    Bytes,
    Longs,
    NotByColumns,
    Numbers,
)
from breakglass.services.topic_backup.batch_header import ATTRIBUTES_AT, BATCH_HEADER
from breakglass.services.topic_backup.batches import MAX_BATCH_BYTES
from breakglass.services.topic_backup.compression import Compression, decompress

CONTENTS_BYTES = 32 * 1024 * 1024
"""The bytes that are in memory at a time; a larger batch is in memory alone."""


@dataclass(frozen=True, slots=True)
class BatchContents:
    """The uncompressed records of the batches of *table*."""

    table: BatchTable
    data: bytes
    """At least `PADDING` bytes follow the last record."""
    begins: Longs
    """The start of the records of each batch in *data*."""
    ends: Longs

    @property
    def content(self) -> Bytes:
        """The bytes of *data* as numbers."""
        return np.frombuffer(self.data, np.uint8)


def contents_of(data: bytes, table: BatchTable, where: str) -> Iterator[BatchContents]:
    """The records of the batches of *table* in *data*, a few megabytes at a time.

    Raises:
        NotByColumns: the CRC of a batch differs.
        MalformedMessage: a batch cannot be decompressed.
    """
    if not len(table):
        return
    _require_crcs(data, table)
    begins, ends = table.positions + BATCH_HEADER.size, table.ends
    if not table.codecs.any() and int(ends[-1]) + PADDING <= len(data):
        # The usual case: the start of a cut batch follows the last whole batch.
        yield BatchContents(table, data, begins, ends)
    else:
        yield from _decompressed(data, table, where)


def _require_crcs(data: bytes, table: BatchTable) -> None:
    import google_crc32c

    # Slices of an array are not copied, and google_crc32c accepts them.
    content: Any = np.frombuffer(data, np.uint8)
    begins = (table.positions + ATTRIBUTES_AT).tolist()
    for begin, end, crc in zip(
        begins, table.ends.tolist(), table.column("crc").tolist(), strict=True
    ):
        if google_crc32c.value(content[begin:end]) != crc:
            raise NotByColumns


def _decompressed(data: bytes, table: BatchTable, where: str) -> Iterator[BatchContents]:
    pieces: list[bytes] = []
    size = first = 0
    for number, piece in enumerate(_pieces(data, table, where)):
        pieces.append(piece)
        size += len(piece)
        if size >= CONTENTS_BYTES or number == len(table) - 1:
            yield _together(table.where(np.arange(first, number + 1)), pieces)
            pieces, size, first = [], 0, number + 1


def _together(table: BatchTable, pieces: list[bytes]) -> BatchContents:
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return BatchContents(
        table, b"".join([*pieces, bytes(PADDING)]), ends - np.diff(ends, prepend=0), ends
    )


def _pieces(data: bytes, table: BatchTable, where: str) -> Iterator[bytes]:
    """The decompressed records of each batch."""
    begins = (table.positions + BATCH_HEADER.size).tolist()
    for begin, end, codec in zip(begins, table.ends.tolist(), table.codecs.tolist(), strict=True):
        piece = data[begin:end]
        if codec != Compression.NONE:
            piece = decompress(codec, piece, MAX_BATCH_BYTES, where)
        yield piece


WORTHWHILE = 25
"""With at least this many batches on average, walking side by side is faster."""


def record_places(contents: BatchContents) -> Longs:
    """The start of each record in the contents; the readers of records check the places.

    Raises:
        NotByColumns: a place is outside the contents, or a length is wider than 32 bits.
    """
    counts = contents.table.column("count")
    most = int(counts.max(initial=0))
    if int(counts.sum()) >= WORTHWHILE * most:
        return _side_by_side(contents, counts, most)
    return _in_turn(contents, counts)


def _side_by_side(contents: BatchContents, counts: Longs, most: int) -> Longs:
    numbers, last = Numbers(contents.content), int(contents.ends[-1])
    # The longest batches first: finished batches fall off the end.
    order = np.argsort(-counts, kind="stable")
    slots = (np.cumsum(counts) - counts)[order]
    longer = np.searchsorted(-counts[order], -np.arange(most), side="left")
    places, at = np.empty(int(counts.sum()), np.int64), contents.begins[order]
    for step, active in enumerate(longer.tolist()):
        at = at[:active]
        if len(at) and int(at.max()) >= last:
            raise NotByColumns
        places[slots[:active] + step] = at
        at = numbers.after_lengths(at)
    return places


def _in_turn(contents: BatchContents, counts: Longs) -> Longs:
    places: list[int] = []
    last = int(contents.ends[-1])
    for begin, count in zip(contents.begins.tolist(), counts.tolist(), strict=True):
        _walk(contents.data, begin, last, count, places)
    return np.array(places, np.int64)


def _walk(data: bytes, at: int, last: int, count: int, places: list[int]) -> None:
    """Add the places of the *count* records from *at* on to *places*; all are before *last*."""
    for _ in range(count):
        if at >= last:
            raise NotByColumns
        places.append(at)
        byte = data[at]
        raw, shift = byte & 0x7F, 7
        while byte >= 0x80 and at + 1 < last and shift < 35:
            at += 1
            byte = data[at]
            raw |= (byte & 0x7F) << shift
            shift += 7
        at += 1 + (raw >> 1)
