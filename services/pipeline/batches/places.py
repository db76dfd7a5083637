"""Where the records of some batches begin: each tells its length, and so where the next one is.

Many short batches are walked side by side, a record of each at a time; few long ones one after
the other, which costs less for each record where few can be walked together.
"""

from __future__ import annotations

import numpy as np

from services.pipeline.batches.contents import BatchContents
from services.pipeline.batches.varints import Longs, NotByColumns, Numbers

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
