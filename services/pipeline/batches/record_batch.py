"""Builds record batches (message format 2) from stored records, all records of a batch at once.

Source: DefaultRecordBatch.java, DefaultRecord.java.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from breakglass.services.pipeline.batches.columns import HEADER_PIECES, PIECES, put, taken
from breakglass.services.pipeline.batches.stored_columns import StoredColumns
from breakglass.services.pipeline.batches.varints import Longs, sizes_of, written
from breakglass.services.topic_backup.batches import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_MASK,
)

NO_EPOCH = -1
LONGER = 8
"""A record is at most this many bytes longer in a batch than in storage. A timestamp is written
as its distance from the first timestamp, in up to ten bytes, also for a record stored without
a timestamp. All other numbers but the length take no more bytes than in storage."""
LENGTH, ATTRIBUTES, TIMESTAMP, OFFSET, KEY, VALUE, HEADERS = range(7)
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
    rows[:, TIMESTAMP] = columns.timestamps - columns.timestamps[0]
    rows[:, OFFSET] = np.arange(len(columns))
    rows[:, KEY], rows[:, VALUE] = columns.keys.lengths, columns.values.lengths
    rows[:, HEADERS] = columns.header_counts
    headers = np.stack([columns.headers.keys.lengths, columns.headers.values.lengths], axis=1)
    sizes = sizes_of(rows[:, ATTRIBUTES:]).sum(axis=1)
    sizes += columns.keys.sizes + columns.values.sizes + _header_sizes(columns, headers)
    rows[:, LENGTH] = sizes
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
        np.append(at[0, LENGTH], np.stack([*begins, at[:, HEADERS]], axis=1).ravel()),
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
    put(begins, to, at[:, LENGTH], keys.begins - first, at[:, VALUE], values.begins - first,
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
