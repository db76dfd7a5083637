"""The records of some batches, checked and decompressed, in one piece of memory.

Records that are not compressed stay where they lie in the fetched bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from services.pipeline.batches.table import BatchTable
from services.pipeline.batches.varints import PADDING, Bytes, Longs, NotByColumns, Numbers
from services.topic_backup.batch_header import ATTRIBUTES_AT, BATCH_HEADER
from services.topic_backup.batches import MAX_BATCH_BYTES
from services.topic_backup.compression import Compression, decompress

CONTENTS_BYTES = 32 * 1024 * 1024
"""So much lies in memory at a time, or one batch where that alone is larger."""


@dataclass(frozen=True, slots=True)
class BatchContents:
    """The records of the batches of *table*, none of them compressed."""

    table: BatchTable
    data: bytes
    """At least `PADDING` bytes follow the last record."""
    begins: Longs
    """Where the records of each batch begin in *data*."""
    ends: Longs

    @property
    def content(self) -> Bytes:
        """The bytes of *data* as numbers."""
        return np.frombuffer(self.data, np.uint8)


def contents_of(data: bytes, table: BatchTable, where: str) -> Iterator[BatchContents]:
    """The records of the batches of *table*, which lie in *data*, a few megabytes at a time.

    Raises:
        NotByColumns: the CRC of a batch differs.
        MalformedMessage: a batch cannot be decompressed.
    """
    if not len(table):
        return
    _require_crcs(data, table)
    begins, ends = table.positions + BATCH_HEADER.size, table.ends
    if not table.codecs.any() and int(ends[-1]) + PADDING <= len(data):
        # As nearly always: after what is whole follows the beginning of a batch.
        yield BatchContents(table, data, begins, ends)
    else:
        yield from _decompressed(data, table, where)


def _require_crcs(data: bytes, table: BatchTable) -> None:
    import google_crc32c

    # Pieces of an array are no copies, and google_crc32c takes them.
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
    """The records of each batch, not compressed any more."""
    begins = (table.positions + BATCH_HEADER.size).tolist()
    for begin, end, codec in zip(begins, table.ends.tolist(), table.codecs.tolist(), strict=True):
        piece = data[begin:end]
        if codec != Compression.NONE:
            piece = decompress(codec, piece, MAX_BATCH_BYTES, where)
        yield piece


WORTHWHILE = 25
"""So many batches have to be walked side by side, on the average, to be quicker than in turn."""


def record_places(contents: BatchContents) -> Longs:
    """Where each record begins in the contents, batch by batch.

    That the places are right is for those to find out who read there.

    Raises:
        NotByColumns: a place lies outside of the contents, or a length is wider than 32 bits.
    """
    counts = contents.table.column("count")
    most = int(counts.max(initial=0))
    if int(counts.sum()) >= WORTHWHILE * most:
        return _side_by_side(contents, counts, most)
    return _in_turn(contents, counts)


def _side_by_side(contents: BatchContents, counts: Longs, most: int) -> Longs:
    numbers, last = Numbers(contents.content), int(contents.ends[-1])
    # The longest first: those that are done fall off the end.
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
    """Add the places of the *count* records from *at* on to *places*; none is behind *last*."""
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
