"""The headers of all record batches of a fetch as one table, a row each. Pure."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakglass.services.pipeline.batches.varints import Bytes, Longs, NotByColumns
from breakglass.services.topic_backup.batch_header import (
    BATCH_HEADER,
    COMPRESSION_MASK,
    CONTROL_MASK,
    LENGTH_END,
    LOG_APPEND_MASK,
    MAGIC,
    TRANSACTIONAL_MASK,
    read_headers,
)
from breakglass.services.topic_backup.batches import ControlType, decode_batch

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
"""The layout of `batch_header`."""
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
        """One field of each header."""
        return self.headers[name].astype(np.int64)

    @property
    def ends(self) -> Longs:
        """The end of each batch in the fetched bytes."""
        return self.positions + self.column("length") + LENGTH_END

    @property
    def next_offsets(self) -> Longs:
        """One past the last offset of each batch."""
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

    Raises:
        NotByColumns: a batch is not of message format 2, or a header is invalid.
    """
    positions = np.array(_positions(data), np.int64)
    everywhere: Bytes = np.frombuffer(data, np.uint8)
    rows = everywhere[positions[:, None] + np.arange(HEADER.itemsize)]
    table = BatchTable(positions, rows.view(HEADER).reshape(-1))
    if not _sound(table):
        raise NotByColumns
    return table


def _positions(data: bytes) -> list[int]:
    """The starts of the whole batches. Raises NotByColumns for an invalid length."""
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
    return found


def _sound(table: BatchTable) -> bool:
    counts, deltas = table.column("count"), table.column("last_delta")
    possible = (counts >= 0) & (counts <= deltas + 1) & (deltas >= 0)
    placed = (table.column("base_offset") >= 0) & (table.next_offsets >= 0)
    return bool(((table.headers["magic"] == MAGIC) & possible & placed).all())


Aborted = Sequence[tuple[int, int]]
"""First offset and producer id of each aborted transaction in the answer to a Fetch."""


def delivered(data: bytes, table: BatchTable, aborted: Aborted, where: str) -> NDArray[np.bool_]:
    """Which batches of *table* a committed read delivers; *table* has all batches of *data*.

    Raises:
        MalformedMessage: the marker of an aborted transaction is damaged.
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
        elif _aborts(data, table, number, where):
            producers.discard(owner)
    return found


def _aborts(data: bytes, table: BatchTable, number: int, where: str) -> bool:
    """Whether a control batch aborts its transaction."""
    batch = data[table.positions[number] : table.ends[number]]
    (header,) = read_headers(batch, where).headers
    marker = decode_batch(batch, header, where).marker
    return marker is not None and marker.type is ControlType.ABORT
