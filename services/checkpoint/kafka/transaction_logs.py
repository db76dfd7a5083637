"""Reads transactions out of logs, and out of ``__transaction_state``.

`read_contents_here` reads one partition at a time; `spark.logs` reads in Spark tasks. Both use
`rows_in` and `commits_in`, so both give the same.

``__transaction_state`` is needed for producers whose transactions share an epoch. The coordinators'
logs are read, then the ends of all partitions, then the coordinators' logs again: a producer
without a decision in between is anchored, since then every transaction that is decided has all its
markers before these ends.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.logs import Ends, Logs, read_ends
from breakglass.services.checkpoint.protocol.transactions import (
    BatchKind,
    BatchRow,
    DecidedTransaction,
    ProducerHistory,
)
from breakglass.services.errors import LogBeginsLater, MalformedMessage, Refused, TimedOut
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TRANSACTION_STATE, TopicPartition
from breakglass.services.pipeline.batches.reader import FetchedBatches, records_of
from breakglass.services.pipeline.batches.table import NotByColumns
from breakglass.services.pipeline.batches.tasks import LogRange, fetches_in
from breakglass.services.record_batches import (
    BatchHeader,
    ControlType,
    Record,
    decode_batch,
    message_header,
    read_headers,
)
from breakglass.services.recovery.internal_topics.records import (
    DECIDED,
    NotThatRecord,
    TransactionalState,
    change_of,
)

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


ReadContents: TypeAlias = Callable[[Logs, Ends, Ends, Collection[str]], LoggedBatches]
"""Reads the contents of ``[start, end)`` of logs, where the end is at most the stable end.

Commits are those of the given groups alone.

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
        raise Refused(
            f"unverifiable: records of {wanted.partition} were removed while the checkpoint was "
            "decided, by retention or by the application, as Kafka Streams does in repartition "
            "topics: take a checkpoint with a new id"
        ) from error


def rows_in(fetched: FetchedBatches, wanted: LogRange) -> list[BatchRow]:
    """The batches of *fetched* that begin in *wanted*.

    Raises MalformedMessage: a marker is damaged.
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


PAUSE_SECONDS = 0.02
UNDER_WAY = ("PrepareCommit", "PrepareAbort")
"""States in which the coordinator has decided, and markers are missing (TransactionState.java)."""


def transaction_state(record: Record) -> TransactionalState | None:
    """The content of a record of ``__transaction_state``; None if it removes an id.

    Raises MalformedMessage: it is no such record.
    """
    if record.value is None:
        return None
    try:
        change = change_of(TRANSACTION_STATE, record)
    except NotThatRecord:
        raise MalformedMessage(
            f"the record at offset {record.offset} of {TRANSACTION_STATE} cannot be read; check it "
            "with kafka-dump-log.sh --transaction-log-decoder"
        ) from None
    assert change is not None
    assert isinstance(change.value, TransactionalState)
    return change.value


@dataclass(slots=True)
class _Producer:
    decided: list[DecidedTransaction] = field(default_factory=list)
    deciding: bool = False
    """A decision is recorded, and not yet that all markers are written."""
    anchored: int | None = None
    ends: Ends = field(default_factory=dict)


class HistoryReader:
    """Reads the histories of *producers* from the offsets *starts* of the coordinators' logs on."""

    def __init__(
        self,
        client: ReadClient,
        starts: Ends,
        producers: Collection[int],
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._read_to, self._wait = client, dict(starts), wait
        self._producers = {producer_id: _Producer() for producer_id in producers}

    def anchor(self, topics: Sequence[str], deadline: Deadline) -> None:
        """Anchor every producer to ends of the partitions of *topics*.

        Raises:
            TimedOut: a producer decides transactions too fast, or one stays undecided.
            Refused: the coordinators' logs are compacted in the range that is needed.
        """
        self._continue()
        while True:
            quiet = {
                producer_id: len(producer.decided)
                for producer_id, producer in self._producers.items()
                if producer.anchored is None and not producer.deciding
            }
            _, ends = read_ends(self._client, topics, Deadline.after(patience.COMMAND))
            self._continue()
            for producer_id, count in quiet.items():
                producer = self._producers[producer_id]
                if len(producer.decided) == count:
                    producer.anchored, producer.ends = count, ends
            late = [number for number, each in self._producers.items() if each.anchored is None]
            if not late:
                return
            if deadline.passed:
                raise TimedOut(
                    f"unverifiable: transactions of producer {late[0]} cannot be distinguished: "
                    "its coordinator has decided one after the other without a pause; take a "
                    "checkpoint with a new id",
                    "transactions cannot be distinguished",
                )
            self._wait(PAUSE_SECONDS)

    def histories(self) -> dict[int, ProducerHistory]:
        """What is recorded by now of each producer that is anchored."""
        self._continue()
        return {
            producer_id: ProducerHistory(tuple(each.decided), each.anchored, each.ends)
            for producer_id, each in self._producers.items()
            if each.anchored is not None
        }

    def _continue(self) -> None:
        deadline = Deadline.after(patience.COMMAND)
        logs, ends = read_ends(self._client, (TRANSACTION_STATE,), deadline)
        for partition, start in self._read_to.items():
            if start < ends[partition]:
                for state in _states(logs, partition, start, ends[partition]):
                    producer = self._producers.get(state.producer_id)
                    if producer is not None:
                        deciding = state.status in UNDER_WAY
                        if deciding and not producer.deciding:
                            commits = DECIDED[state.status]
                            made = DecidedTransaction(frozenset(state.partitions), commits)
                            producer.decided.append(made)
                        producer.deciding = deciding
                self._read_to[partition] = ends[partition]


def _states(
    logs: Logs, partition: TopicPartition, start: int, end: int
) -> Iterator[TransactionalState]:
    """The records of a coordinator's log. Raises Refused if compaction has removed some."""
    states = {state.partition: state for state in logs.states}
    wanted = LogRange(partition, states[partition].topic_id, logs.leader(partition), start, end)
    compacted = Refused(
        f"unverifiable: compaction has removed what {partition} records of transactions, so they "
        "cannot be distinguished: take a checkpoint with a new id"
    )
    at = start
    try:
        with closing(fetches_in(logs.client, wanted)) as fetches:
            for fetched in fetches:
                for record in records_of(fetched, start, end):
                    if record.offset > at:
                        raise compacted
                    at = record.offset + 1
                    found = transaction_state(record)
                    if found is not None:
                        yield found
    except LogBeginsLater:
        raise compacted from None
    if at < end:
        raise compacted
