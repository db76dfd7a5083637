"""Encodes records as Kafka Backup writes them, from their columns by one take of Arrow.

A record consists of pieces: its fields in the fetched bytes, and the numbers between them, which
are computed for all records at once. Arrow copies the pieces one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from breakglass.services.pipeline.batches.columns import RecordColumns
from breakglass.services.pipeline.batches.varints import Bytes, Longs, NotByColumns
from breakglass.services.topic_backup.record import HEAD, LENGTH, TIMESTAMP

if TYPE_CHECKING:
    pass

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

    Raises:
        NotByColumns: the records exceed 2 GiB.
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
