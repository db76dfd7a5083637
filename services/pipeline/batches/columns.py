"""Decodes the fields of all records of some batches to columns, for all records at once.

Every length is checked against the end of its record, as the decoder of single records does.
Records that do not fit are left to that decoder, which names the error.

The columns are encoded as Kafka Backup writes records, by one take of Arrow: a record consists of
pieces, its fields in the fetched bytes and the numbers between them, which are computed for all
records at once. Arrow copies the pieces one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from breakglass.services.pipeline.batches.table import (
    BatchContents,
    BatchTable,
    Bytes,
    Longs,
    NotByColumns,
    Numbers,
    record_places,
)
from breakglass.services.record_batches import TimestampType
from breakglass.services.topic_backup.record import HEAD, LENGTH, TIMESTAMP

NULL = -1
MOST_HEADERS = 1000
"""Maximum headers of a record: each further header costs one more step over all records."""


@dataclass(frozen=True, slots=True)
class Spans:
    """One field of each record: bytes of the contents, or null."""

    begins: Longs
    lengths: Longs
    """`NULL` for null."""

    @property
    def sizes(self) -> Longs:
        """The size of each field in bytes; 0 for null."""
        return np.maximum(self.lengths, 0)

    @property
    def ends(self) -> Longs:
        return self.begins + self.sizes

    def where(self, wanted: NDArray[np.bool_]) -> Spans:
        return Spans(self.begins[wanted], self.lengths[wanted])


@dataclass(frozen=True, slots=True)
class HeaderColumns:
    """The headers of all records, in order."""

    records: Longs
    """The row of the record that each header belongs to, rising."""
    keys: Spans
    values: Spans

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records, a row each, as they lie in *data*."""

    data: bytes
    table: BatchTable
    batches: Longs
    """The number of each record's batch in *table*."""
    offsets: Longs
    types: Longs
    """The number of each record's `TimestampType`."""
    timestamps: Longs
    keys: Spans
    values: Spans
    header_counts: Longs
    headers: HeaderColumns

    def __len__(self) -> int:
        return len(self.offsets)

    def between(self, start: int, end: int) -> RecordColumns:
        """The records with offsets in ``[start, end)``."""
        wanted = (self.offsets >= start) & (self.offsets < end)
        if bool(wanted.all()):
            return self
        of = wanted[self.headers.records]
        numbers = np.cumsum(wanted) - 1
        headers = HeaderColumns(
            numbers[self.headers.records[of]],
            self.headers.keys.where(of),
            self.headers.values.where(of),
        )
        return RecordColumns(
            self.data,
            self.table,
            self.batches[wanted],
            self.offsets[wanted],
            self.types[wanted],
            self.timestamps[wanted],
            self.keys.where(wanted),
            self.values.where(wanted),
            self.header_counts[wanted],
            headers,
        )


def columns_of(contents: BatchContents) -> RecordColumns:
    """The records of *contents*.

    Raises NotByColumns: the bytes have to be decoded record by record.
    """
    table = contents.table
    counts = table.column("count")
    batches = np.repeat(np.arange(len(table)), counts)
    cursor = _Cursor.at_the_records(contents, counts)
    cursor.skip(1)  # attributes, unused
    timestamps = _timestamps(table, batches, cursor.longs())
    offsets = _offsets(table, batches, cursor.ints())
    keys, values, header_counts = cursor.spans(), cursor.spans(), cursor.ints()
    headers = _headers(cursor, header_counts)
    cursor.require_end()
    log_append, create = int(TimestampType.LOG_APPEND), int(TimestampType.CREATE)
    types = np.where(table.log_append, log_append, create)[batches]
    return RecordColumns(
        contents.data,
        table,
        batches,
        offsets,
        types,
        timestamps,
        keys,
        values,
        header_counts,
        headers,
    )


class _Cursor:
    """The positions of the next field and of the end of each record."""

    def __init__(self, numbers: Numbers, at: Longs, ends: Longs) -> None:
        self._numbers = numbers
        self._at = at
        self._ends = ends

    @classmethod
    def at_the_records(cls, contents: BatchContents, counts: Longs) -> _Cursor:
        """Start after the lengths of the records, which are adjacent and fill their batches."""
        numbers, places = Numbers(contents.content), record_places(contents)
        lengths, at = numbers.ints(places)
        ends = at + lengths
        first = np.cumsum(counts) - counts
        follows = np.append(places[1:], len(contents.data))
        held = counts > 0
        # The last record of a batch ends with it, the first one begins with it.
        follows[(first + counts - 1)[held]] = contents.ends[held]
        begun = (places[first[held]] == contents.begins[held]).all()
        empty = (contents.begins == contents.ends)[~held].all()
        if not (begun and empty and (ends == follows).all()):
            raise NotByColumns
        return cls(numbers, at, ends)

    def of(self, records: Longs) -> _Cursor:
        """A cursor over these *records* alone; this cursor does not move."""
        return _Cursor(self._numbers, self._at[records], self._ends[records])

    def put_back(self, records: Longs, cursor: _Cursor) -> None:
        """Move to where *cursor*, which is over these *records*, has arrived."""
        self._at[records] = cursor._at

    def skip(self, size: int) -> None:
        self._to(self._at + size)

    def ints(self) -> Longs:
        values, after = self._numbers.ints(self._at)
        self._to(after)
        return values

    def longs(self) -> Longs:
        values, after = self._numbers.longs(self._at)
        self._to(after)
        return values

    def spans(self) -> Spans:
        """Fields that have their length before them."""
        lengths = self.ints()
        if bool((lengths < NULL).any()):
            raise NotByColumns
        found = Spans(self._at, lengths)
        self._to(found.ends)
        return found

    def require_end(self) -> None:
        """Check that every record has been read to its end. Raises NotByColumns."""
        if not bool((self._at == self._ends).all()):
            raise NotByColumns

    def _to(self, at: Longs) -> None:
        if bool((at > self._ends).any()):
            raise NotByColumns
        self._at = at


def _timestamps(table: BatchTable, batches: Longs, deltas: Longs) -> Longs:
    base = table.column("base_timestamp")[batches]
    found = base + deltas
    if bool((((base ^ found) & (deltas ^ found)) < 0).any()):
        raise NotByColumns
    return np.where(table.log_append[batches], table.column("max_timestamp")[batches], found)


def _offsets(table: BatchTable, batches: Longs, deltas: Longs) -> Longs:
    if bool(((deltas < 0) | (deltas > table.column("last_delta")[batches])).any()):
        raise NotByColumns
    return table.column("base_offset")[batches] + deltas


def _headers(cursor: _Cursor, counts: Longs) -> HeaderColumns:
    """The headers at *cursor*, *counts* of each record; a step reads one header of each."""
    if bool(((counts < 0) | (counts > MOST_HEADERS)).any()):
        raise NotByColumns
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    found = np.empty((4, total), np.int64)
    for step in range(int(counts.max(initial=0))):
        records = np.flatnonzero(counts > step)
        some = cursor.of(records)
        keys, values = some.spans(), some.spans()
        if bool((keys.lengths == NULL).any()):
            raise NotByColumns
        found[:, firsts[records] + step] = keys.begins, keys.lengths, values.begins, values.lengths
        cursor.put_back(records, some)
    records = np.repeat(np.arange(len(counts)), counts)
    return HeaderColumns(records, Spans(found[0], found[1]), Spans(found[2], found[3]))


ROW = np.dtype(
    [
        ("offset", ">i8"),
        ("type", ">i4"),
        ("timestamp", ">i8"),
        ("key", ">i4"),
        ("value", ">i4"),
        ("headers", ">i4"),
    ]
)
"""The numbers of a record: before its key, before its value, before its headers."""
HEAD_BYTES = HEAD.size + TIMESTAMP.size + LENGTH.size
"""Size of the numbers before the key: offset, type, timestamp, length."""
HEADER_ROW = np.dtype([("key", ">i4"), ("value", ">i4")])
MOST_BYTES = 2**31 - 1
"""Arrow's offsets have 32 bits."""


def joined(columns: RecordColumns) -> tuple[memoryview, Longs]:
    """The encoded records one after the other, and their bounds.

    Raises NotByColumns: the records exceed 2 GiB.
    """
    if not len(columns):
        return memoryview(b""), np.zeros(1, np.int64)
    sizes = _sizes(columns)
    bounds = np.append(0, np.cumsum(sizes))
    # The numbers of all records, then those of all headers.
    rows = np.empty(len(columns), ROW)
    rows["offset"], rows["type"] = columns.offsets, columns.types
    rows["timestamp"] = columns.timestamps
    rows["key"], rows["value"] = columns.keys.lengths, columns.values.lengths
    rows["headers"] = columns.header_counts
    headers = np.empty(len(columns.headers), HEADER_ROW)
    headers["key"], headers["value"] = columns.headers.keys.lengths, columns.headers.values.lengths
    numbers = rows.tobytes() + headers.tobytes()
    rows_at, size = len(columns.data), len(columns.data) + len(numbers)
    if int(bounds[-1]) > MOST_BYTES or size > MOST_BYTES:
        raise NotByColumns
    begins, ends = (
        _with_headers(columns, rows_at) if len(columns.headers) else _plain(columns, rows_at)
    )
    return taken(columns.data + numbers, begins, ends, int(bounds[-1])), bounds


def _sizes(columns: RecordColumns) -> Longs:
    """Bytes of each record."""
    sizes = ROW.itemsize + columns.keys.sizes + columns.values.sizes
    headers = columns.headers
    if len(headers):
        own = HEADER_ROW.itemsize + headers.keys.sizes + headers.values.sizes
        sizes += np.bincount(headers.records, own, len(columns)).astype(np.int64)
    return sizes


def _plain(columns: RecordColumns, rows_at: int) -> tuple[Longs, Longs]:
    """The pieces of records without headers.

    The last number of a record is adjacent to the first numbers of the next: they are one piece.
    """
    rows = rows_at + ROW.itemsize * np.arange(len(columns))
    last = rows[-1] + ROW.itemsize
    before_value, behind = rows + HEAD_BYTES, rows + HEAD_BYTES + LENGTH.size
    if columns.keys.sizes.any():
        next_key = np.append(rows[1:] + HEAD_BYTES, last)
        begins = [columns.keys.begins, before_value, columns.values.begins, behind]
        ends = [columns.keys.ends, behind, columns.values.ends, next_key]
        first = HEAD_BYTES
    else:
        next_value = np.append(behind[1:], last)
        begins, ends = [columns.values.begins, behind], [columns.values.ends, next_value]
        first = HEAD_BYTES + LENGTH.size
    return (
        np.append(rows[0], np.stack(begins, axis=1).ravel()),
        np.append(rows[0] + first, np.stack(ends, axis=1).ravel()),
    )


PIECES = 5
"""How many pieces a record has: numbers, key, number, value, number."""
HEADER_PIECES = 4


def _with_headers(columns: RecordColumns, rows_at: int) -> tuple[Longs, Longs]:
    """The pieces of records with headers."""
    headers, count = columns.headers, len(columns)
    rows = rows_at + ROW.itemsize * np.arange(count)
    before_value, behind = rows + HEAD_BYTES, rows + HEAD_BYTES + LENGTH.size
    pieces = PIECES + HEADER_PIECES * columns.header_counts
    at = np.cumsum(pieces) - pieces
    begins, ends = np.empty((2, int(pieces.sum())), np.int64)
    keys, values = columns.keys, columns.values
    put(begins, at, rows, keys.begins, before_value, values.begins, behind)
    put(ends, at, before_value, keys.ends, behind, values.ends, rows + ROW.itemsize)
    firsts = np.cumsum(columns.header_counts) - columns.header_counts
    own = np.arange(len(headers)) - firsts[headers.records]
    at = at[headers.records] + PIECES + HEADER_PIECES * own
    rows = rows_at + ROW.itemsize * count + HEADER_ROW.itemsize * np.arange(len(headers))
    middle, last = rows + LENGTH.size, rows + HEADER_ROW.itemsize
    put(begins, at, rows, headers.keys.begins, middle, headers.values.begins)
    put(ends, at, middle, headers.keys.ends, last, headers.values.ends)
    return begins, ends


def put(pieces: Longs, at: Longs, *columns: Longs) -> None:
    """Write *columns* into *pieces*, side by side from each of *at* on."""
    for number, column in enumerate(columns):
        pieces[at + number] = column


def taken(data: bytes | Bytes, begins: Longs, ends: Longs, size: int) -> memoryview:
    """The bytes ``[begin, end)`` of *data* for each piece, one after the other.

    For Arrow, the pieces are every second value of a binary column whose offsets are the starts and
    ends of the pieces. The first and the last offset are the bounds of *data*.
    """
    import pyarrow as pa

    count = len(begins)
    places = np.empty(2 * count + 2, np.int32)
    places[0], places[1:-1:2], places[2:-1:2], places[-1] = 0, begins, ends, len(data)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.binary(), 2 * count + 1, buffers)
    numbers = pa.py_buffer(np.arange(1, 2 * count, 2, dtype=np.int32))
    every_second = pa.Array.from_buffers(pa.int32(), count, [None, numbers])
    return memoryview(texts.take(every_second).buffers()[2])[:size]
