"""Where a checkpoint cuts a log that its senders write themselves, as Kafka's partitions are (H1).

Nobody can put a record before another's there. But every record carries the checkpoint id of its
sender, so the log itself says where the checkpoint begins.
"""

from __future__ import annotations

from collections.abc import Iterable


def cut(records: Iterable[tuple[int, int]], checkpoint: int) -> int | None:
    """The position of the first record that carries an id of *checkpoint* or greater, exclusive.

    *records* are positions and ids of committed records, markers as well as data, in the log's
    order. None: no such record, so the checkpoint has not reached this partition.
    """
    return next((position for position, id in records if id >= checkpoint), None)
