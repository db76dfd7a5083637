"""Reads what logs contain of transactions: batch headers, markers, and commits of offsets.

`read_contents_here` reads one partition at a time; `spark.transaction_logs` reads in Spark tasks.
Both use `rows_in` and `commits_in`, so both give the same.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.log_ends import Ends, Logs
from breakglass.services.checkpoint.protocol.transaction_names import BatchKind, BatchRow
from breakglass.services.errors import LogBeginsLater, MalformedMessage, Refused
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.batches.converting import FetchedBatches, records_of
from breakglass.services.pipeline.batches.log_range import LogRange, fetches_in
from breakglass.services.pipeline.batches.varints import NotByColumns
from breakglass.services.topic_backup.batch_header import BatchHeader, read_headers
from breakglass.services.topic_backup.batches import ControlType, decode_batch
from breakglass.services.topic_backup.older_messages import message_header
from breakglass.services.topic_backup.record import Record

COMMIT_KEYS = (0, 1)
"""Versions of the keys of committed offsets; other keys are of groups (OffsetCommitKey.json)."""
_SHORT, _LONG = struct.Struct(">h"), struct.Struct(">q")
_MARKER_KEY = struct.Struct(">hh")
_PLAIN_MARKER = (61, b"\x00\x00\x00\x08")
"""What follows the length of an uncompressed marker's record: the length of the key is last."""


class CommitRow(NamedTuple):
    """A committed record of ``__consumer_offsets`` that commits the offset of a group."""

    position: int
    group: str
    topic: str
    partition: int
    offset: int | None
    """None: the offset is deleted."""


@dataclass(frozen=True, slots=True)
class LoggedBatches:
    """What ranges of logs contain, in log order."""

    batches: dict[TopicPartition, list[BatchRow]] = field(default_factory=dict)
    commits: dict[TopicPartition, list[CommitRow]] = field(default_factory=dict)


class ReadContents(Protocol):
    """Reads what ranges of logs contain."""

    def __call__(
        self, logs: Logs, starts: Ends, ends: Ends, groups: Collection[str]
    ) -> LoggedBatches:
        """The contents of ``[start, end)`` of each log, where *end* is at most the stable end.

        Commits are those of *groups* alone.

        Raises:
            Refused: retention has removed the start of a range.
            ClusterError, Unreachable, PipelineError: a log cannot be read.
        """


def read_contents_here(
    logs: Logs, starts: Ends, ends: Ends, groups: Collection[str]
) -> LoggedBatches:
    """`ReadContents` in this process."""
    found = LoggedBatches()
    states = {state.partition: state for state in logs.states}
    for partition, start in starts.items():
        rows, commits = found.batches.setdefault(partition, []), []
        if start < ends[partition]:
            topic_id, leader = states[partition].topic_id, logs.leader(partition)
            wanted = LogRange(partition, topic_id, leader, start, ends[partition])
            for fetched in whole_range(logs.client, wanted):
                rows += rows_in(fetched, wanted)
                commits += commits_in(fetched, wanted, groups)
        if partition.topic == OFFSETS_TOPIC:
            found.commits[partition] = commits
    return found


def whole_range(
    client: ReadClient, wanted: LogRange, seconds: float = patience.JOB
) -> Iterator[FetchedBatches]:
    """The batches of *wanted*. Raises: as `ReadContents`."""
    try:
        with closing(fetches_in(client, wanted, seconds)) as fetches:
            yield from fetches
    except LogBeginsLater as error:
        raise gone(wanted.partition) from error


def gone(partition: TopicPartition) -> Refused:
    """The error for a log that no longer has what was to be read."""
    return Refused(
        f"unverifiable: records of {partition} were removed while the checkpoint was decided, by "
        "retention or by the application, as Kafka Streams does in repartition topics: take a "
        "checkpoint with a new id"
    )


def rows_in(fetched: FetchedBatches, wanted: LogRange) -> list[BatchRow]:
    """The batches of *fetched* that begin in *wanted*.

    Raises:
        MalformedMessage: a marker is damaged.
    """
    try:
        table = fetched.table
    except NotByColumns:
        return [
            _row(fetched, header)
            for header in read_headers(fetched.data, fetched.where, message_header).headers
            if wanted.start <= header.base_offset < wanted.end
        ]
    bases = table.column("base_offset")
    table = table.where((bases >= wanted.start) & (bases < wanted.end))
    columns = zip(
        table.positions.tolist(),
        table.column("base_offset").tolist(),
        (table.next_offsets - 1).tolist(),
        table.column("producer_id").tolist(),
        table.column("producer_epoch").tolist(),
        table.transactional.tolist(),
        table.control.tolist(),
        table.column("count").tolist(),
        strict=True,
    )
    return [
        BatchRow(
            first,
            last,
            producer_id,
            epoch,
            _marker(fetched, position) if control else BatchKind.DATA if data else BatchKind.PLAIN,
            count,
        )
        for position, first, last, producer_id, epoch, data, control, count in columns
    ]


def _row(fetched: FetchedBatches, header: BatchHeader) -> BatchRow:
    kind = BatchKind.DATA if header.transactional else BatchKind.PLAIN
    if header.control:
        kind = _decoded(fetched, header)
    numbers = header.producer_id, header.producer_epoch
    return BatchRow(header.base_offset, header.last_offset, *numbers, kind, header.count)


def _marker(fetched: FetchedBatches, position: int) -> BatchKind:
    """The kind of the control batch at *position*; brokers write one short record, uncompressed."""
    data, (begin, usual) = fetched.data, _PLAIN_MARKER
    at = position + begin + 1
    if data[position + 22] & 7 == 0 and data[at : at + len(usual)] == usual:
        _, number = _MARKER_KEY.unpack_from(data, at + len(usual))
        if number in (ControlType.ABORT, ControlType.COMMIT):
            return BatchKind.COMMIT if number == ControlType.COMMIT else BatchKind.ABORT
    for header in read_headers(data[position:], fetched.where).headers[:1]:
        return _decoded(fetched, header, position)
    raise MalformedMessage(f"{fetched.where}: a control batch is cut off; read it again.")


def _decoded(fetched: FetchedBatches, header: BatchHeader, position: int = 0) -> BatchKind:
    marker = decode_batch(fetched.data[position:], header, fetched.where).marker
    if marker is None or marker.type not in (ControlType.ABORT, ControlType.COMMIT):
        return BatchKind.OTHER
    return BatchKind.COMMIT if marker.type is ControlType.COMMIT else BatchKind.ABORT


def commits_in(
    fetched: FetchedBatches, wanted: LogRange, groups: Collection[str]
) -> list[CommitRow]:
    """The offsets of *groups* that committed records of *fetched* commit."""
    if wanted.partition.topic != OFFSETS_TOPIC:
        return []
    found = (_commit(record) for record in records_of(fetched, wanted.start, wanted.end))
    return [row for row in found if row is not None and row.group in groups]


def _commit(record: Record) -> CommitRow | None:
    """The commit in a record of ``__consumer_offsets``; None if the record is of another kind."""
    key, value = record.key or b"", record.value
    try:
        (version,) = _SHORT.unpack_from(key)
        if version not in COMMIT_KEYS:
            return None
        group, at = _text(key, 2)
        topic, at = _text(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        offset = None if value is None else _LONG.unpack_from(value, 2)[0]
    except (struct.error, UnicodeDecodeError):
        raise MalformedMessage(
            f"the record at offset {record.offset} of {OFFSETS_TOPIC} is no committed offset; "
            "check it with kafka-dump-log.sh --offsets-decoder"
        ) from None
    return CommitRow(record.offset, group, topic, partition, offset)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(data, at)
    end = at + 2 + length
    return data[at + 2 : end].decode(), end
