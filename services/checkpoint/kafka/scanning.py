"""Reads the headers of committed records: checkpoint ids, and the lineage at the end of a log.

Reads without Spark: only few records lie between two moments of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs
from breakglass.services.checkpoint.kafka.stamps import Headers, Stamp, stamp_of
from breakglass.services.checkpoint.protocol.cut import cut
from breakglass.services.errors import ClusterError, Refused
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.committed_log import CommittedLog


@dataclass(frozen=True, slots=True)
class StampedRecord:
    """The headers of one committed record."""

    partition: TopicPartition
    offset: int
    stamp: Stamp


def committed_log(logs: Logs, partition: TopicPartition) -> CommittedLog:
    """The log of *partition* as its leader serves it."""
    return CommittedLog(logs.client.sender, logs.leader(partition), partition)


def scan(
    logs: Logs, partition: TopicPartition, start: int, end: int, external: Collection[str] = ()
) -> Iterator[StampedRecord]:
    """The committed records in ``[start, end)``, where *end* is at most the stable end.

    Raises:
        Refused: a record has no lineage headers, so its origin is unknown (H10), and its topic is
            not among the *external* ones.
        EvidenceChanged, ClusterError, Unreachable: the log cannot be read.
    """
    log = committed_log(logs, partition)
    if start >= end:
        return
    for record in log.records(start, end):
        stamp = require_stamp(partition, record.offset, record.headers, external)
        yield StampedRecord(partition, record.offset, stamp)


FROM_OUTSIDE = Stamp(0, None)
"""In place of missing headers, where the topic is declared to be written from outside alone."""


def require_stamp(
    partition: TopicPartition, offset: int, headers: Headers, external: Collection[str] = ()
) -> Stamp:
    """What the headers of a record say.

    Without headers a record of an *external* topic comes from outside: nothing in the checkpoint
    led to it, so it makes no cut inconsistent.

    Raises:
        Refused: the headers do not contain the lineage (H10).
    """
    stamp = stamp_of(headers)
    if stamp is None and partition.topic in external:
        return FROM_OUTSIDE
    if stamp is None:
        raise Refused(
            f"unverifiable: the record at offset {offset} of {partition} says nothing of what led "
            "to it: have its writer use the participant, declare the topic with --external where "
            "it is written from outside alone, or take it out of the checkpoint's topics"
        )
    return stamp


def scan_all(
    logs: Logs, starts: Ends, ends: Ends, external: Collection[str] = ()
) -> Iterator[StampedRecord]:
    """`scan` of every partition of *starts*, one partition at a time."""
    for partition, start in starts.items():
        yield from scan(logs, partition, start, ends[partition], external)


def read_cut(
    logs: Logs,
    partition: TopicPartition,
    floor: int,
    marker: int,
    id: int,
    external: Collection[str] = (),
) -> int:
    """The offset where checkpoint *id* begins, between *floor* and *marker* in *partition* (H1).

    Raises:
        ClusterError: the log does not contain the marker any more.
        Refused and others: as `scan`.
    """
    found = cut(_ids(scan(logs, partition, floor, marker + 1, external)), id)
    if found is None:
        raise ClusterError(
            f"the marker at offset {marker} of {partition} is gone: its log was cut; take a "
            "checkpoint with a new id"
        )
    return found


def _ids(records: Iterable[StampedRecord]) -> Iterator[tuple[int, int]]:
    return ((record.offset, record.stamp.sn) for record in records)


def nothing_to_process(
    logs: Logs, partition: TopicPartition, start: int, end: int, *, external: Collection[str] = ()
) -> bool:
    """Whether ``[start, end)`` contains only markers, of checkpoints or of transactions.

    Raises: as `scan`.
    """
    return all(record.stamp.marker for record in scan(logs, partition, start, end, external))
