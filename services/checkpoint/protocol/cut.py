"""Finds the cut of a checkpoint in a log to which its senders write directly, as in Kafka (H1).

A marker cannot be put before another sender's record. But every record carries its sender's
checkpoint id, so the log itself shows where the checkpoint begins.
"""

from __future__ import annotations

from collections.abc import Iterable


def cut(records: Iterable[tuple[int, int]], checkpoint: int) -> int | None:
    """The position of the first record that carries an id of *checkpoint* or greater, exclusive.

    *records* are positions and ids of committed records, markers as well as data, in the log's
    order. None: no such record, so the checkpoint has not reached this partition.
    """
    return next((position for position, id in records if id >= checkpoint), None)
