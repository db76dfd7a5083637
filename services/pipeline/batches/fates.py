"""Which batches of a fetch a committed read delivers, by the transactions that were aborted."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.pipeline.batches.table import BatchTable
from services.topic_backup.batch_header import read_headers
from services.topic_backup.batches import ControlType, decode_batch

Aborted = Sequence[tuple[int, int]]
"""First offset and producer id of each transaction that the answer to a Fetch calls aborted."""


def delivered(data: bytes, table: BatchTable, aborted: Aborted, where: str) -> NDArray[np.bool_]:
    """Which batches of *table*, all those of *data*, hold records for a committed read.

    Raises:
        MalformedMessage: the marker of an aborted transaction is damaged.
    """
    kept = ~table.control
    if aborted:
        kept[_of_aborted(data, table, aborted, where)] = False
    return kept


def _of_aborted(data: bytes, table: BatchTable, aborted: Aborted, where: str) -> list[int]:
    """The numbers of the batches that belong to aborted transactions (CompletedFetch.java)."""
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
    """Whether a control batch ends a transaction by aborting it."""
    batch = data[table.positions[number] : table.ends[number]]
    (header,) = read_headers(batch, where).headers
    marker = decode_batch(batch, header, where).marker
    return marker is not None and marker.type is ControlType.ABORT
