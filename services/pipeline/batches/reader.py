"""Reads the committed batches of a partition from its leader, and encodes their records.

The reader follows leader changes. It sends Fetch requests as a consumer, the next request while the
caller uses the last response. Brokers that support topic ids get the id, so that another topic of
the same name is not read. Each request has the epoch that was read last, so that the reader notices
a truncated log.

It decodes the response to a Fetch of one partition, and copies its records only once.
kafka-python's decoder copies the rest of a response for every tagged field, and most of a response
is records. The layouts are those of FetchResponse.json from v4 on; v12 added tagged fields.

The bytes of a fetch become stored records by columns if possible, else record by record. The
decoder of single records is the reference: it decodes what the columns cannot represent, older
message formats and damaged batches.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import (
    LogBeginsLater,
    LogTruncated,
    MalformedMessage,
    TimedOut,
    TopicRecreated,
    Unreachable,
    UnsupportedByCluster,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    LEADER_ONLY,
    ListedOffset,
    list_offsets,
)
from breakglass.services.kafka.wire.answers import (
    OFFSET_OUT_OF_RANGE,
    cluster_error,
    describe_error,
    retriable,
)
from breakglass.services.kafka.wire.api_keys import FETCH
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.memory import read_large_batches
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.batches.columns import RecordColumns, columns_of, joined
from breakglass.services.pipeline.batches.table import (
    Aborted,
    BatchTable,
    NotByColumns,
    contents_of,
    delivered,
    read_table,
)
from breakglass.services.pipeline.committed_log import (
    NO_EPOCH,
    READ_COMMITTED,
    fetch_request,
    judged,
)
from breakglass.services.pipeline.part_writer import RecordChunk, encoded_chunks
from breakglass.services.record_batches import Record, message_header, read_headers

FIRST_VERSION = 4
"""The version of Kafka 0.11: older brokers do not support transactions."""
LOG_START_VERSION = 5
SESSION_VERSION = 7
FOLLOWER_VERSION = 11
FLEXIBLE_VERSION = 12
"""From this version on lengths are varints, and tagged fields follow each structure."""
TOPIC_ID_VERSION = 13
"""From this version on, requests name topics by their ids."""
DIVERGING_EPOCH = 0
"""The tag of the epoch at which the log diverged from the log that was read before."""

_SESSION = struct.Struct(
    ">h"  # ErrorCode => int16
    "i"  # SessionId => int32
)
_PARTITION = struct.Struct(
    ">i"  # PartitionIndex   => int32
    "h"  # ErrorCode        => int16
    "q"  # HighWatermark    => int64
    "q"  # LastStableOffset => int64
)
_ABORTED = struct.Struct(
    ">q"  # ProducerId  => int64
    "q"  # FirstOffset => int64
)
_EPOCH_END = struct.Struct(
    ">i"  # Epoch     => int32
    "q"  # EndOffset => int64
)
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_TOPIC_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """The answer for its one partition."""

    throttle_time_ms: int
    error_code: int
    """The error of the answer or of the partition."""
    last_stable_offset: int
    log_start: int
    """-1 before v5, whose answers do not have it."""
    aborted: tuple[tuple[int, int], ...]
    """First offset and producer id of each aborted transaction."""
    diverged: tuple[int, int] | None
    """Epoch and end offset of the last epoch that the broker shares with the reader."""
    records: bytes
    empty: bool = False
    """The answer has no partition."""

    name = "FetchResponse"

    @staticmethod
    def parse_header(data: Any, version: int) -> Any:
        """Skip the header, as kafka-python does."""
        from kafka.protocol.consumer import FetchResponse

        return FetchResponse.parse_header(data, version=version)

    @classmethod
    def decode(cls, body: memoryview, *, version: int) -> FetchAnswer:
        """Decode the answer. Raises struct.error or ValueError for bytes that are not an answer."""
        return _Decoder(body, version).answer()


class _Decoder:
    """Reads an answer; `_at` is the position of the next byte."""

    def __init__(self, body: memoryview, version: int) -> None:
        self._body = body
        self._version = version
        self._flexible = version >= FLEXIBLE_VERSION
        self._at = 0

    def answer(self) -> FetchAnswer:
        (throttle,) = self._take(_INT)
        error, _ = self._take(_SESSION) if self._version >= SESSION_VERSION else (0, 0)
        if not self._count():
            return FetchAnswer(throttle, error, -1, -1, (), None, b"", empty=True)
        self._slice(_TOPIC_ID_BYTES if self._version >= TOPIC_ID_VERSION else self._short_size())
        if not self._count():
            return FetchAnswer(throttle, error, -1, -1, (), None, b"", empty=True)
        _, own_error, _, stable = self._take(_PARTITION)
        (start,) = self._take(_LONG) if self._version >= LOG_START_VERSION else (-1,)
        aborted = tuple(self._aborted() for _ in range(self._count()))
        if self._version >= FOLLOWER_VERSION:
            self._take(_INT)  # PreferredReadReplica
        records = bytes(self._slice(self._count()))
        diverged = self._diverged() if self._flexible else None
        return FetchAnswer(throttle, error or own_error, stable, start, aborted, diverged, records)

    def _aborted(self) -> tuple[int, int]:
        producer, first = self._take(_ABORTED)
        if self._flexible:
            self._tags()
        return first, producer

    def _diverged(self) -> tuple[int, int] | None:
        content = self._tags().get(DIVERGING_EPOCH)
        if content is None:
            return None
        epoch, end = _EPOCH_END.unpack_from(content)
        return (epoch, end) if end >= 0 else None

    def _tags(self) -> dict[int, memoryview]:
        return {self._varint(): self._slice(self._varint()) for _ in range(self._varint())}

    def _count(self) -> int:
        """The number of entries or bytes that follow; 0 for null."""
        if self._flexible:
            return max(self._varint() - 1, 0)
        return max(int(self._take(_INT)[0]), 0)

    def _short_size(self) -> int:
        if self._flexible:
            return max(self._varint() - 1, 0)
        return max(int(self._take(_SHORT)[0]), 0)

    def _take(self, form: struct.Struct) -> tuple[int, ...]:
        found = form.unpack_from(self._body, self._at)
        self._at += form.size
        return found

    def _slice(self, size: int) -> memoryview:
        end = self._at + size
        if end > len(self._body):
            raise ValueError(f"{size} bytes at byte {self._at} of {len(self._body)}")
        found = self._body[self._at : end]
        self._at = end
        return found

    def _varint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self._slice(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError(f"a number of more than 32 bits at byte {self._at}")


CHUNK_BYTES = 4 * 1024 * 1024
"""Size of a response; the connection needs the same memory again for the next response."""
LANE = "batches"
"""A separate connection, so that other requests to the broker do not wait for these responses."""


@dataclass(slots=True)
class BatchReader:
    """Reads one partition of the topic with *topic_id*."""

    client: ReadClient
    partition: TopicPartition
    topic_id: UUID
    leader: int
    leader_epoch: int = NO_EPOCH
    """With the epoch, a former leader rejects the request; without it, it answers as a follower."""
    chunk_bytes: int = CHUNK_BYTES
    seconds: float = patience.JOB

    def __post_init__(self) -> None:
        read_large_batches()

    @property
    def where(self) -> str:
        return f"{self.partition} on b{self.leader}"

    def fetches(self, start: int, end: int) -> Generator[FetchedBatches, None, None]:
        """The batches with offsets in ``[start, end)``, by answers to Fetch.

        *end* is not past the last stable offset. The first batch may start before *start*.

        Raises:
            LogBeginsLater: the log now starts after the next offset to read.
            LogTruncated: the log lost offsets that were read, or *start*.
            TopicRecreated: the topic was deleted, or recreated with the same name.
            TimedOut, Unreachable: the leader cannot be read for `seconds` seconds.
            ClusterError: the leader refuses the request.
            UnsupportedByCluster: brokers older than Kafka 0.11.
        """
        with ThreadPoolExecutor(1, "fetch") as ahead:
            coming = ahead.submit(self._fetch, start, NO_EPOCH, self.chunk_bytes)
            at, epoch, size = start, NO_EPOCH, self.chunk_bytes
            while True:
                answer = coming.result()
                number = self.partition.partition
                fetched = FetchedBatches(number, answer.records, answer.aborted, self.where)
                last = fetched.last
                if last.next_offset > at:
                    at, epoch, size = last.next_offset, last.epoch, self.chunk_bytes
                elif last.cut_bytes:
                    size = max(2 * size, last.cut_bytes)
                else:
                    return
                if at < end:
                    coming = ahead.submit(self._fetch, at, epoch, size)
                yield fetched
                if at >= end:
                    return

    def _fetch(self, position: int, epoch: int, size: int) -> FetchAnswer:
        def ask() -> FetchAnswer:
            try:
                return self._ask(position, epoch, size)
            except Unreachable as error:
                failure = error
            # After the handler, so that errors of the search are not chained to the failure.
            self._find_leader()
            raise failure

        return until(Deadline.after(self.seconds), ask)

    def _ask(self, position: int, epoch: int, size: int) -> FetchAnswer:
        deadline = Deadline.after(patience.FETCH)
        version = self._version(deadline)
        answer: FetchAnswer = self.client.sender.call(
            self.leader,
            fetch_request(
                self.partition,
                position,
                size,
                READ_COMMITTED,
                epoch=epoch,
                leader_epoch=self.leader_epoch,
                topic_id=self.topic_id,
            ),
            FetchAnswer,
            deadline,
            lane=LANE,
            max_version=version,
        )
        code = answer.error_code
        if code == OFFSET_OUT_OF_RANGE:
            raise self._out_of_range(position, deadline)
        if code and not retriable(code):
            raise cluster_error(
                code, f"reading {self.where}", f"READ on topic {self.partition.topic}"
            )
        if code or answer.empty:
            reason = describe_error(code) if code else "the answer does not have it"
            raise TimedOut(f"{self.where} cannot be read now ({reason}): try again", reason)
        if answer.diverged is not None:
            raise LogTruncated(
                f"{self.where} was cut back to offset {answer.diverged[1]:,} of leader epoch "
                f"{answer.diverged[0]} or below while it was read up to offset {position:,}: "
                "run this again"
            )
        if not answer.records and answer.last_stable_offset <= position:
            # A new leader does not know the high watermark before its followers have fetched.
            raise TimedOut(
                f"the last stable offset of {self.where} went back to "
                f"{answer.last_stable_offset}: try again",
                "its stable end went back",
            )
        return answer

    def _version(self, deadline: Deadline) -> int:
        """The newest version of Fetch that both the leader and `FetchAnswer` support."""
        offered = self.client.sender.offers(self.leader, FETCH, deadline)
        newest = TOPIC_ID_VERSION if self.topic_id.int else FLEXIBLE_VERSION
        version = min(newest, offered[1] if offered else 0)
        if version < FIRST_VERSION:
            raise UnsupportedByCluster(
                f"b{self.leader} offers Fetch up to version {version}: this needs Kafka 0.11"
            )
        return version

    def _out_of_range(self, position: int, deadline: Deadline) -> Exception:
        answer = list_offsets(
            self.client.sender,
            self.leader,
            [self.partition],
            EARLIEST,
            deadline,
            replica_id=LEADER_ONLY,
        )[self.partition]
        if not isinstance(answer, ListedOffset):
            return TimedOut(f"{self.where} cannot be read now ({answer.reason}): try again")
        if answer.offset > position:
            return LogBeginsLater(
                f"{self.where} now starts at offset {answer.offset:,}, after offset {position:,}, "
                "which was to be read next: run this again"
            )
        return LogTruncated(
            f"{self.where} ends before offset {position:,}, which was to be read next: run this "
            "again"
        )

    def _find_leader(self) -> None:
        """Find the current leader of the partition.

        Raises:
            TopicRecreated: the topic was deleted, or recreated with the same name.
            Unreachable: no broker answers, or the partition has no leader.
        """
        deadline = Deadline.after(patience.FETCH)
        self.client.describe(deadline)
        states = self.client.newest_partitions((self.partition.topic,), deadline, (self.partition,))
        state = next((state for state in states if state.partition == self.partition), None)
        if state is None or state.topic_id != self.topic_id:
            raise TopicRecreated(
                f"topic {self.partition.topic} was deleted or recreated while it was read: "
                "run this again"
            )
        if state.leader is None:
            raise TimedOut(f"{self.partition} has no leader: recover it first", "offline")
        self.leader, self.leader_epoch = state.leader, state.leader_epoch


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last whole batch of a fetch."""

    next_offset: int
    """The offset after its last offset; 0 without a complete batch."""
    epoch: int
    """Its leader epoch; -1 without a whole batch."""
    cut_bytes: int
    """The bytes of a cut batch that follow; 0 if none."""


@dataclass(frozen=True)
class FetchedBatches:
    """The batches of one partition from the answer to a Fetch."""

    partition: int
    data: bytes
    """Record batches; the last one may be cut."""
    aborted: Aborted
    where: str
    """The partition as messages name it."""

    @cached_property
    def table(self) -> BatchTable:
        """The whole batches.

        Raises NotByColumns: a batch is invalid, or not of message format 2.
        """
        return read_table(self.data)

    @cached_property
    def last(self) -> LastBatch:
        """The last whole batch, of any message format.

        Raises MalformedMessage: a batch of an unknown message format, or impossible lengths.
        """
        size = len(self.data)
        try:
            table = self.table
        except NotByColumns:
            headers = read_headers(self.data, self.where, message_header).headers
            if not headers:
                return LastBatch(0, -1, size)
            last = headers[-1]
            return LastBatch(last.next_offset, last.leader_epoch, size - last.size - last.position)
        if not len(table):
            return LastBatch(0, -1, size)
        epoch = int(table.headers["leader_epoch"][-1])
        return LastBatch(int(table.next_offsets[-1]), epoch, size - int(table.ends[-1]))


def chunks_of(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordChunk]:
    """The committed records of *fetched* with offsets in ``[start, end)``, encoded.

    Raises MalformedMessage: the bytes are not batches.
    """
    done = start
    try:
        for columns in columns_in(fetched, start, end):
            encoded, bounds = joined(columns)
            offsets, timestamps = columns.offsets, columns.timestamps
            yield RecordChunk(fetched.partition, offsets, timestamps, bounds, encoded)
            done = int(offsets[-1]) + 1
    except (NotByColumns, MalformedMessage):
        # The decoder of single records names the error of a damaged batch.
        yield from exactly(fetched, done, end)


def columns_in(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordColumns]:
    """The committed records of *fetched* with offsets in ``[start, end)``; never empty columns.

    Raises:
        NotByColumns: the bytes have to be decoded record by record.
        MalformedMessage: the bytes are not batches.
    """
    data, where = fetched.data, fetched.where
    table = fetched.table
    kept = delivered(data, table, fetched.aborted, where)
    kept &= (table.next_offsets > start) & (table.column("base_offset") < end)
    for contents in contents_of(data, table.where(kept), where):
        columns = columns_of(contents).between(start, end)
        if len(columns):
            yield columns


def exactly(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordChunk]:
    """The same as `chunks_of`, decoded record by record."""
    return encoded_chunks(fetched.partition, records_of(fetched, start, end))


def records_of(fetched: FetchedBatches, start: int, end: int) -> Iterator[Record]:
    """The committed records of *fetched* with offsets in ``[start, end)``, decoded one by one.

    Raises MalformedMessage: the bytes are not batches.
    """
    headers = read_headers(fetched.data, fetched.where, message_header).headers
    for batch in judged(fetched.data, headers, fetched.aborted, fetched.where):
        header = batch.header
        if header.next_offset > start and header.base_offset < end:
            records = batch.records(fetched.where)
            yield from (record for record in records if start <= record.offset < end)
