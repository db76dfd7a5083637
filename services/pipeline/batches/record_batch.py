"""Decodes stored records to columns, and builds record batches (message format 2) from them.

Each length is compared with the end of its record before later bytes are read.
Source: DefaultRecordBatch.java, DefaultRecord.java.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from breakglass.services.errors import MalformedInput
from breakglass.services.pipeline.batches.columns import (
    HEADER_PIECES,
    NULL,
    PIECES,
    HeaderColumns,
    Spans,
    put,
    taken,
)
from breakglass.services.pipeline.batches.table import Bytes, Longs, sizes_of, written
from breakglass.services.pipeline.stored_segments import RecordRun
from breakglass.services.record_batches import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_MASK,
    TimestampType,
)
from breakglass.services.topic_backup.record import HEAD, LENGTH, SMALLEST_HEADER, TIMESTAMP

NO_TIMESTAMP = -1
Rows = Longs | NDArray[np.bool_] | slice
TYPE_AT = 8
"""The position of the timestamp type, after the offset."""


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """Records, a row each, as they lie in *data*."""

    data: Bytes
    bounds: Longs
    """The start of each record in *data*, and the end of the last."""
    offsets: Longs
    types: Longs
    """The number of each record's `TimestampType`."""
    timestamps: Longs
    """`NO_TIMESTAMP` if the record has none."""
    keys: Spans
    values: Spans
    header_counts: Longs
    headers: HeaderColumns

    def __len__(self) -> int:
        return len(self.offsets)

    def rows(self, start: int, end: int) -> StoredColumns:
        """Records number *start* to *end*."""
        counts = self.header_counts
        first, last = int(counts[:start].sum()), int(counts[:end].sum())
        headers = HeaderColumns(
            self.headers.records[first:last] - start,
            _rows(self.headers.keys, first, last),
            _rows(self.headers.values, first, last),
        )
        return StoredColumns(
            self.data,
            self.bounds[start : end + 1],
            self.offsets[start:end],
            self.types[start:end],
            self.timestamps[start:end],
            _rows(self.keys, start, end),
            _rows(self.values, start, end),
            counts[start:end],
            headers,
        )


def _rows(spans: Spans, start: int, end: int) -> Spans:
    return Spans(spans.begins[start:end], spans.lengths[start:end])


def stored_columns(run: RecordRun) -> StoredColumns:
    """The records of *run*. Raises MalformedInput: the bytes are not records."""
    fields = _Fields(run)
    types = fields.ints(TYPE_AT)
    fields.require((types >= min(TimestampType)) & (types <= max(TimestampType)))
    fields.skip(HEAD.size)
    timestamps = fields.timestamps(types >= TimestampType.CREATE)
    keys, values = fields.spans(), fields.spans()
    counts = fields.ints(0)
    fields.skip(LENGTH.size)
    headers = _headers(fields, counts)
    fields.require_end()
    return StoredColumns(
        run.data, run.bounds, run.offsets, types, timestamps, keys, values, counts, headers
    )


class _Fields:
    """The positions of the next field and of the end of each record."""

    def __init__(self, run: RecordRun) -> None:
        self._offsets = run.offsets
        data = np.ascontiguousarray(run.data)
        self._ints = _everywhere(data, ">i4")
        self._longs = _everywhere(data, ">i8")
        self._at, self._ends = run.bounds[:-1].copy(), run.bounds[1:]

    def ints(self, ahead: int) -> Longs:
        """The numbers of 32 bits, *ahead* bytes after the position."""
        self.require(self._at + ahead + LENGTH.size <= self._ends)
        return self._ints[self._at + ahead].astype(np.int64)

    def left(self) -> Longs:
        return self._ends - self._at

    def skip(self, size: int) -> None:
        self._at += size

    def timestamps(self, stamped: NDArray[np.bool_]) -> Longs:
        found = np.full(len(stamped), NO_TIMESTAMP, np.int64)
        at = self._at[stamped]
        self.require(at + TIMESTAMP.size <= self._ends[stamped], stamped)
        found[stamped] = self._longs[at].astype(np.int64)
        self._at[stamped] += TIMESTAMP.size
        return found

    def spans(self, records: Longs | None = None) -> Spans:
        """Fields that have their length before them, of all records or of *records*."""
        rows: Rows = slice(None) if records is None else records
        begins = self._at[rows] + LENGTH.size
        self.require(begins <= self._ends[rows], rows)
        lengths = self._ints[self._at[rows]].astype(np.int64)
        found = Spans(begins, lengths)
        self.require((lengths >= NULL) & (found.ends <= self._ends[rows]), rows)
        self._at[rows] = found.ends
        return found

    def require_end(self) -> None:
        self.require(self._at == self._ends)

    def require(self, right: NDArray[np.bool_], rows: Rows = slice(None)) -> None:
        if not bool(right.all()):
            offsets = self._offsets[rows]
            wrong = int(offsets[int(np.flatnonzero(~right)[0])])
            raise MalformedInput(
                f"the stored record at offset {wrong} is damaged: run `breakglass backup verify`, "
                "then restore what it leaves"
            )


def _everywhere(data: Bytes, kind: str) -> NDArray[np.signedinteger]:
    """The number that starts at each byte of *data*."""
    size = np.dtype(kind).itemsize
    return np.ndarray((max(0, len(data) - size + 1),), kind, data, strides=(1,))


def _headers(fields: _Fields, counts: Longs) -> HeaderColumns:
    """The headers, *counts* of each record; a step reads one header of each."""
    fields.require((counts >= 0) & (SMALLEST_HEADER * counts <= fields.left()))
    firsts = np.cumsum(counts) - counts
    found = np.empty((4, int(counts.sum())), np.int64)
    step = 0
    while len(records := np.flatnonzero(counts > step)):
        keys, values = fields.spans(records), fields.spans(records)
        found[:, firsts[records] + step] = keys.begins, keys.lengths, values.begins, values.lengths
        step += 1
    records = np.repeat(np.arange(len(counts)), counts)
    return HeaderColumns(records, Spans(found[0], found[1]), Spans(found[2], found[3]))


NO_EPOCH = -1
LONGER = 8
"""A record is at most this many bytes longer in a batch than in storage. A timestamp is written
as its distance from the first timestamp, in up to ten bytes, also for a record stored without
a timestamp. All other numbers but the length take no more bytes than in storage."""
LENGTH_AT, ATTRIBUTES, TIME, OFFSET, KEY, VALUE, HEADERS = range(7)
"""The numbers of a record, in order."""


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer that sends batches."""

    id: int
    epoch: int
    transactional: bool


def batch_rows(columns: StoredColumns, most_bytes: int) -> Iterator[tuple[int, int]]:
    """The first row and the end row of each batch: as many records as fit, at least one."""
    longest = columns.bounds + LONGER * np.arange(len(columns.bounds))
    room = most_bytes - BATCH_HEADER.size
    start = 0
    while start < len(columns):
        fits = int(np.searchsorted(longest, longest[start] + room, side="right")) - 1
        end = max(start + 1, min(fits, len(columns)))
        # How many of the first timestamps have a 64-bit distance from the first timestamp.
        timestamps = columns.timestamps[start:end]
        apart = timestamps - timestamps[0]
        beyond = ((timestamps ^ timestamps[0]) & (timestamps ^ apart)) < 0
        end = start + (int(beyond.argmax()) if beyond.any() else len(timestamps))
        yield start, end
        start = end


def record_batch(columns: StoredColumns, producer: Producer, sequence: int) -> bytes:
    """The records of *columns* as a batch; *sequence* is that of its first record."""
    import google_crc32c

    records = _records(columns)
    timestamps = columns.timestamps
    header = BATCH_HEADER.pack(
        0,
        BATCH_HEADER.size - LENGTH_END + len(records),
        NO_EPOCH,
        MAGIC,
        0,
        TRANSACTIONAL_MASK if producer.transactional else 0,
        len(columns) - 1,
        int(timestamps[0]),
        int(timestamps.max()),
        producer.id,
        producer.epoch,
        sequence,
        len(columns),
    )
    crc = google_crc32c.extend(google_crc32c.value(header[ATTRIBUTES_AT:]), records)
    return b"".join([
        header[: ATTRIBUTES_AT - 4],
        crc.to_bytes(4, "big"),
        header[ATTRIBUTES_AT:],
        records,
    ])  # fmt: skip


def _records(columns: StoredColumns) -> bytes:
    """The records one after the other."""
    rows = np.zeros((len(columns), HEADERS + 1), np.int64)
    rows[:, TIME] = columns.timestamps - columns.timestamps[0]
    rows[:, OFFSET] = np.arange(len(columns))
    rows[:, KEY], rows[:, VALUE] = columns.keys.lengths, columns.values.lengths
    rows[:, HEADERS] = columns.header_counts
    headers = np.stack([columns.headers.keys.lengths, columns.headers.values.lengths], axis=1)
    sizes = sizes_of(rows[:, ATTRIBUTES:]).sum(axis=1)
    sizes += columns.keys.sizes + columns.values.sizes + _header_sizes(columns, headers)
    rows[:, LENGTH_AT] = sizes
    size = int((sizes + sizes_of(sizes)).sum())
    # Numbers and fields of the records, by one take of Arrow.
    first, last = int(columns.bounds[0]), int(columns.bounds[-1])
    content = columns.data[first:last].tobytes()
    numbers, places = written(np.append(rows.ravel(), headers.ravel()))
    places = places + len(content)
    begins, ends = (
        _with_headers(columns, places, first) if len(headers) else _plain(columns, places, first)
    )
    return bytes(taken(content + numbers.tobytes(), begins, ends, size))


def _header_sizes(columns: StoredColumns, headers: Longs) -> Longs:
    """Bytes of all headers of each record."""
    if not len(headers):
        return np.zeros(len(columns), np.int64)
    own = sizes_of(headers).sum(axis=1)
    own += columns.headers.keys.sizes + columns.headers.values.sizes
    return np.bincount(columns.headers.records, own, len(columns)).astype(np.int64)


def _plain(columns: StoredColumns, places: Longs, first: int) -> tuple[Longs, Longs]:
    """The pieces of records without headers, of which the data begins at *first*.

    The last number of a record is adjacent to the first numbers of the next: they are one piece.
    """
    at = places[:-1].reshape(-1, HEADERS + 1)
    next_value = np.append(at[1:, VALUE], places[-1])
    begins = [columns.keys.begins - first, at[:, VALUE], columns.values.begins - first]
    ends = [columns.keys.ends - first, at[:, HEADERS], columns.values.ends - first, next_value]
    return (
        np.append(at[0, LENGTH_AT], np.stack([*begins, at[:, HEADERS]], axis=1).ravel()),
        np.append(at[0, VALUE], np.stack(ends, axis=1).ravel()),
    )


def _with_headers(columns: StoredColumns, places: Longs, first: int) -> tuple[Longs, Longs]:
    """The pieces of records some of which have headers."""
    count, headers = len(columns), columns.headers
    at = places[: count * (HEADERS + 1)].reshape(count, -1)
    behind = places[1 : count * (HEADERS + 1) + 1].reshape(count, -1)
    pieces = PIECES + HEADER_PIECES * columns.header_counts
    to = np.cumsum(pieces) - pieces
    begins, ends = np.empty((2, int(pieces.sum())), np.int64)
    keys, values = columns.keys, columns.values
    put(begins, to, at[:, LENGTH_AT], keys.begins - first, at[:, VALUE], values.begins - first,
         at[:, HEADERS])  # fmt: skip
    put(ends, to, behind[:, KEY], keys.ends - first, behind[:, VALUE], values.ends - first,
         behind[:, HEADERS])  # fmt: skip
    firsts = np.cumsum(columns.header_counts) - columns.header_counts
    own = np.arange(len(headers)) - firsts[headers.records]
    to = to[headers.records] + PIECES + HEADER_PIECES * own
    at = places[count * (HEADERS + 1) : -1].reshape(-1, 2)
    behind = places[count * (HEADERS + 1) + 1 :].reshape(-1, 2)
    put(begins, to, at[:, 0], headers.keys.begins - first, at[:, 1], headers.values.begins - first)
    put(ends, to, behind[:, 0], headers.keys.ends - first, behind[:, 1],
         headers.values.ends - first)  # fmt: skip
    return begins, ends
