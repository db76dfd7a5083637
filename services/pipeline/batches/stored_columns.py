"""Decodes stored records to columns, from which a restore builds its batches.

Each length is compared with the end of its record before later bytes are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from breakglass.services.errors import MalformedInput
from breakglass.services.pipeline.batches.columns import NULL, HeaderColumns, Spans
from breakglass.services.pipeline.batches.varints import Bytes, Longs
from breakglass.services.pipeline.stored_segments import RecordRun
from breakglass.services.topic_backup.record import (
    HEAD,
    LENGTH,
    SMALLEST_HEADER,
    TIMESTAMP,
    TimestampType,
)

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
    """The records of *run*.

    Raises:
        MalformedInput: the bytes are not records.
    """
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
