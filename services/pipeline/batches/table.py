"""Reads the headers of all record batches of a fetch as a table, and decompresses their records.

Uncompressed records stay in the fetched bytes, without a copy. The start of each record follows
from the length of the record before it. Many short batches are walked side by side, one record of
each at a time; few long batches are walked one after the other, which costs less for each record.

Reads Kafka's zigzag-encoded varints at many positions of some bytes at once.

Most lengths and differences have one byte or two: a table maps the two bytes to the number. If any
number is longer, all are read from the eight bytes at their places. Numbers of more than eight
bytes are left to the decoder of single records.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakglass.services.record_batches import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    COMPRESSION_MASK,
    CONTROL_MASK,
    LENGTH_END,
    LOG_APPEND_MASK,
    MAGIC,
    MAX_BATCH_BYTES,
    TRANSACTIONAL_MASK,
    Compression,
    ControlType,
    decode_batch,
    decompress,
    read_headers,
)

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

        Raises NotByColumns: a number is wider.
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

        Raises NotByColumns: a length is negative, or wider than 32 bits.
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

        Raises NotByColumns: a number takes more than eight bytes.
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


HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
"""The layout of `BATCH_HEADER`."""
_LENGTH = struct.Struct(">i")
_LENGTH_AT = LENGTH_END - _LENGTH.size


class BatchTable:
    """Batches of one fetch."""

    def __init__(self, positions: Longs, headers: NDArray[np.void]) -> None:
        self.positions = positions
        """The start of each batch in the fetched bytes."""
        self.headers = headers

    def __len__(self) -> int:
        return len(self.positions)

    def where(self, wanted: NDArray[Any]) -> BatchTable:
        """The batches that *wanted* selects, a mask or row numbers."""
        return BatchTable(self.positions[wanted], self.headers[wanted])

    def column(self, name: str) -> Longs:
        return self.headers[name].astype(np.int64)

    @property
    def ends(self) -> Longs:
        """The end of each batch in the fetched bytes."""
        return self.positions + self.column("length") + LENGTH_END

    @property
    def next_offsets(self) -> Longs:
        """The offset after the last offset of each batch."""
        return self.column("base_offset") + self.column("last_delta") + 1

    @property
    def codecs(self) -> Longs:
        """The compression of each batch, as its number."""
        return self.column("attributes") & COMPRESSION_MASK

    @property
    def log_append(self) -> NDArray[np.bool_]:
        return self._flag(LOG_APPEND_MASK)

    @property
    def transactional(self) -> NDArray[np.bool_]:
        return self._flag(TRANSACTIONAL_MASK)

    @property
    def control(self) -> NDArray[np.bool_]:
        return self._flag(CONTROL_MASK)

    def _flag(self, mask: int) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (self.column("attributes") & mask) != 0
        return found


def read_table(data: bytes) -> BatchTable:
    """The whole batches of *data*; a cut batch at the end is left out.

    Raises NotByColumns: a batch is not of message format 2, or a header is invalid.
    """
    # The starts of the whole batches. Raises NotByColumns for an invalid length.
    found, at, size, length_at = [], 0, len(data), _LENGTH.unpack_from
    while at + LENGTH_END <= size:
        (length,) = length_at(data, at + _LENGTH_AT)
        if length < BATCH_HEADER.size - LENGTH_END:
            raise NotByColumns
        end = at + LENGTH_END + length
        if end > size:
            break
        found.append(at)
        at = end
    positions = np.array(found, np.int64)
    everywhere: Bytes = np.frombuffer(data, np.uint8)
    rows = everywhere[positions[:, None] + np.arange(HEADER.itemsize)]
    table = BatchTable(positions, rows.view(HEADER).reshape(-1))
    counts, deltas = table.column("count"), table.column("last_delta")
    possible = (counts >= 0) & (counts <= deltas + 1) & (deltas >= 0)
    placed = (table.column("base_offset") >= 0) & (table.next_offsets >= 0)
    if not bool(((table.headers["magic"] == MAGIC) & possible & placed).all()):
        raise NotByColumns
    return table


Aborted = Sequence[tuple[int, int]]
"""First offset and producer id of each aborted transaction in the answer to a Fetch."""


def delivered(data: bytes, table: BatchTable, aborted: Aborted, where: str) -> NDArray[np.bool_]:
    """Which batches of *table* a committed read delivers; *table* has all batches of *data*.

    Raises MalformedMessage: the marker of an aborted transaction is damaged.
    """
    kept = ~table.control
    if aborted:
        kept[_of_aborted(data, table, aborted, where)] = False
    return kept


def _of_aborted(data: bytes, table: BatchTable, aborted: Aborted, where: str) -> list[int]:
    """The rows of batches of aborted transactions (CompletedFetch.java)."""
    waiting = list(aborted)
    heapq.heapify(waiting)
    producers: set[int] = set()
    found = []
    lasts, owners = table.next_offsets - 1, table.column("producer_id")
    for number in np.flatnonzero(table.transactional | table.control).tolist():
        while waiting and waiting[0][0] <= lasts[number]:
            producers.add(heapq.heappop(waiting)[1])
        if (owner := int(owners[number])) not in producers:
            continue
        if not table.control[number]:
            found.append(number)
            continue
        batch = data[table.positions[number] : table.ends[number]]
        (header,) = read_headers(batch, where).headers
        marker = decode_batch(batch, header, where).marker
        if marker is not None and marker.type is ControlType.ABORT:
            producers.discard(owner)
    return found


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
        pieces: list[bytes] = []
        size = first = 0
        for number, piece in enumerate(_pieces(data, table, where)):
            pieces.append(piece)
            size += len(piece)
            if size >= CONTENTS_BYTES or number == len(table) - 1:
                yield _together(table.where(np.arange(first, number + 1)), pieces)
                pieces, size, first = [], 0, number + 1


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

    Raises NotByColumns: a place is outside the contents, or a length is wider than 32 bits.
    """
    counts = contents.table.column("count")
    most = int(counts.max(initial=0))
    if int(counts.sum()) >= WORTHWHILE * most:
        return _side_by_side(contents, counts, most)
    places: list[int] = []
    last = int(contents.ends[-1])
    for begin, count in zip(contents.begins.tolist(), counts.tolist(), strict=True):
        _walk(contents.data, begin, last, count, places)
    return np.array(places, np.int64)


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
