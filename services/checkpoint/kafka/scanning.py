"""Reads what stands in the headers of committed records: the ids and the lineage of a log's end.

Without Spark: it is the little that lies between two moments of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs
from breakglass.services.checkpoint.kafka.stamps import Headers, Stamp, stamp_of
from breakglass.services.checkpoint.protocol.cut import cut
from breakglass.services.errors import ClusterError, Refused
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.committed_log import CommittedLog


@dataclass(frozen=True, slots=True)
class StampedRecord:
    """One committed record by what its headers say."""

    partition: TopicPartition
    offset: int
    stamp: Stamp


def committed_log(logs: Logs, partition: TopicPartition) -> CommittedLog:
    """The log of *partition* as its leader serves it."""
    return CommittedLog(logs.client.sender, logs.leader(partition), partition)


def scan(logs: Logs, partition: TopicPartition, start: int, end: int) -> Iterator[StampedRecord]:
    """The committed records with offsets in ``[start, end)``, which is not past the stable end.

    Raises:
        Refused: a record there has no headers of ours, so nobody can tell what led to it (H10).
        EvidenceChanged, ClusterError, Unreachable: the log cannot be read.
    """
    log = committed_log(logs, partition)
    if start >= end:
        return
    for record in log.records(start, end):
        stamp = require_stamp(partition, record.offset, record.headers)
        yield StampedRecord(partition, record.offset, stamp)


def require_stamp(partition: TopicPartition, offset: int, headers: Headers) -> Stamp:
    """What the headers of a record say.

    Raises:
        Refused: they say nothing of what led to it (H10).
    """
    stamp = stamp_of(headers)
    if stamp is None:
        raise Refused(
            f"unverifiable: the record at offset {offset} of {partition} says nothing of what led "
            "to it: have its writer use the participant, or take it out of the checkpoint's topics"
        )
    return stamp


def scan_all(logs: Logs, starts: Ends, ends: Ends) -> Iterator[StampedRecord]:
    """`scan` of every partition of *starts*, one after the other."""
    for partition, start in starts.items():
        yield from scan(logs, partition, start, ends[partition])


def read_cut(logs: Logs, partition: TopicPartition, floor: int, marker: int, id: int) -> int:
    """Where checkpoint *id* begins in *partition*: between its *floor* and its *marker* (H1).

    Raises:
        ClusterError: not even the marker is there any more.
        Refused and others: as `scan`.
    """
    found = cut(_ids(scan(logs, partition, floor, marker + 1)), id)
    if found is None:
        raise ClusterError(
            f"the marker at offset {marker} of {partition} is gone: its log was cut; take a "
            "checkpoint with a new id"
        )
    return found


def _ids(records: Iterable[StampedRecord]) -> Iterator[tuple[int, int]]:
    return ((one.offset, one.stamp.sn) for one in records)


def nothing_to_process(logs: Logs, partition: TopicPartition, start: int, end: int) -> bool:
    """Whether ``[start, end)`` holds nothing but markers, ours and those of transactions.

    Raises: as `scan`.
    """
    return all(one.stamp.marker for one in scan(logs, partition, start, end))
