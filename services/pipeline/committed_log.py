"""Reads a leader's log batch by batch, with the outcome of each transaction, without Spark.

It explains missing offsets, and copies ranges that are too small for a job. It supports every
message format.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import EvidenceChanged, TimedOut
from breakglass.services.kafka.wire.answers import (
    OFFSET_OUT_OF_RANGE,
    cluster_error,
    retriable,
    unbelievable,
)
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.memory import read_large_batches
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import (
    MAGIC,
    BatchHeader,
    ControlType,
    Record,
    decode_batch,
    message_header,
    message_records,
    read_headers,
)

CONSUMER = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NO_SESSION = -1
FETCH_VERSION = 12
"""The last version that uses topic names instead of topic ids."""
CHUNK_BYTES = 1024 * 1024
WAIT_MS = 500
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class FetchedLog:
    """One answer: the whole batches in it, and how far the log can be read."""

    batches: tuple[CommittedBatch, ...]
    cut: int
    """How much to ask for so that a cut batch comes whole; 0 if none was cut."""
    end: int
    """The last stable offset, or the high watermark for uncommitted reads."""
    size: int


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """One batch, and whether a committed read delivers its records."""

    header: BatchHeader
    data: bytes
    """The answer that has the batch at `header.position`."""
    aborted: bool

    def records(self, where: str) -> tuple[Record, ...]:
        """The records that a committed read delivers."""
        if self.aborted or self.header.control:
            return ()
        if self.header.magic < MAGIC:
            return message_records(self.data, self.header, where)
        return decode_batch(self.data, self.header, where).records


@dataclass(slots=True)
class CommittedLog:
    """The log of one partition below its last stable offset, read from its leader."""

    sender: Sender
    leader: int
    partition: TopicPartition
    chunk_bytes: int = CHUNK_BYTES
    read_bytes: int = field(default=0, init=False)
    """Bytes fetched so far."""

    def __post_init__(self) -> None:
        read_large_batches()

    @property
    def where(self) -> str:
        return f"{self.partition} on b{self.leader}"

    def batches(self, start: int, end: int) -> Iterator[CommittedBatch]:
        """The batches with offsets in ``[start, end)``; *end* is not past the last stable offset.

        Raises:
            EvidenceChanged: the log now begins after *start*.
            TimedOut: its last stable offset stays before *end*.
            ClusterError, Unreachable: the leader does not return records.
            MalformedMessage: the bytes are not batches.
        """
        yield from self._batches(start, end, READ_COMMITTED)

    def _batches(self, start: int, end: int, isolation: int) -> Iterator[CommittedBatch]:
        position, size = start, self.chunk_bytes
        while position < end:
            fetched = self._fetch(position, size, isolation)
            yield from (batch for batch in fetched.batches if batch.header.base_offset < end)
            if fetched.batches:
                position, size = fetched.batches[-1].header.next_offset, self.chunk_bytes
            elif fetched.cut:
                size = max(2 * size, fetched.cut)
            else:
                return

    def records(self, start: int, end: int) -> Iterator[Record]:
        """The committed records with offsets in ``[start, end)``. Raises as `batches`."""
        for batch in self.batches(start, end):
            for record in batch.records(self.where):
                if start <= record.offset < end:
                    yield record

    def records_beside_open_transactions(self, stable_end: int, end: int) -> Iterator[Record]:
        """The records in ``[stable_end, end)`` that are committed, or of no transaction.

        An open transaction hides them from committed reads, which stop where it begins. *end* is
        not past the high watermark. Records come as their transactions end, not by offset. Raises
        as `batches`.
        """
        open_now: dict[int, list[Record]] = {}
        for batch in self._batches(stable_end, end, READ_UNCOMMITTED):
            header = batch.header
            records = [one for one in batch.records(self.where) if stable_end <= one.offset < end]
            if header.control:
                marker = decode_batch(batch.data, header, self.where).marker
                ended = open_now.pop(header.producer_id, [])
                if marker is not None and marker.type is ControlType.COMMIT:
                    yield from ended
            elif header.transactional:
                open_now.setdefault(header.producer_id, []).extend(records)
            else:
                yield from records

    def _fetch(self, position: int, size: int, isolation: int) -> FetchedLog:
        def ask() -> FetchedLog:
            # A fresh deadline for each request: a request cut short would hide the last answer.
            fetched = self.fetch(position, size, isolation, Deadline.after(patience.FETCH))
            if not fetched.size and fetched.end <= position:
                # A new leader does not know the high watermark before its followers have fetched.
                committed = isolation == READ_COMMITTED
                raise TimedOut(
                    f"the {'last stable offset' if committed else 'high watermark'} of "
                    f"{self.where} went back to {fetched.end}: try again",
                    "its stable end went back" if committed else "its high watermark went back",
                )
            self.read_bytes += fetched.size
            return fetched

        return until(Deadline.after(patience.FETCH), ask)

    def fetch(
        self,
        position: int,
        size: int,
        isolation: int,
        deadline: Deadline,
        *,
        wait_ms: int = WAIT_MS,
        epoch: int = NO_EPOCH,
    ) -> FetchedLog:
        """Ask the leader once for *size* bytes of what ends after the offset *position*.

        With *epoch*, that of the last offset before, the leader checks that its log has it.

        Raises:
            EvidenceChanged: the log no longer has that offset, or has another epoch before it.
            TimedOut: the leader cannot answer now.
            ClusterError, Unreachable, MalformedMessage: as `batches`.
        """
        from kafka.protocol.consumer import FetchResponse

        answer = self.sender.call(
            self.leader,
            fetch_request(self.partition, position, size, isolation, wait_ms=wait_ms, epoch=epoch),
            FetchResponse,
            deadline,
            max_version=FETCH_VERSION,
        )
        partitions = [partition for topic in answer.responses for partition in topic.partitions]
        if len(partitions) > 1:
            raise unbelievable(f"b{self.leader}", f"answers for more than {self.partition}")
        code = answer.error_code or (partitions[0].error_code if partitions else 0)
        if code == OFFSET_OUT_OF_RANGE:
            raise EvidenceChanged(f"{self.where} no longer has offset {position}: read it again")
        if code and not retriable(code):
            raise cluster_error(
                code, f"reading {self.where}", f"READ on topic {self.partition.topic}"
            )
        if code or not partitions:
            raise TimedOut(f"{self.where} does not answer with records: try again", "no records")
        (told,) = partitions
        diverged = told.diverging_epoch
        if diverged is not None and diverged.end_offset >= 0:
            raise EvidenceChanged(
                f"{self.where} was cut back to offset {diverged.end_offset:,} or below, and was "
                f"read up to {position:,}: read it again"
            )
        data = bytes(told.records or b"")
        fetched = read_headers(data, self.where, message_header)
        aborted = [
            (transaction.first_offset, transaction.producer_id)
            for transaction in told.aborted_transactions or ()
        ]
        batches = judged(data, fetched.headers, aborted, self.where)
        wanted = tuple([batch for batch in batches if batch.header.next_offset > position])
        cut = max(fetched.cut_batch or 0, fetched.cut_bytes)
        end = told.last_stable_offset if isolation == READ_COMMITTED else told.high_watermark
        return FetchedLog(wanted, cut, end, len(data))


def judged(
    data: bytes, headers: tuple[BatchHeader, ...], aborted: Sequence[tuple[int, int]], where: str
) -> Iterator[CommittedBatch]:
    """Each batch with its outcome, as CompletedFetch.java finds it; *aborted* is of this answer."""
    waiting = list(aborted)
    heapq.heapify(waiting)
    producers: set[int] = set()
    for header in headers:
        while waiting and waiting[0][0] <= header.last_offset:
            producers.add(heapq.heappop(waiting)[1])
        if header.control:
            marker = decode_batch(data, header, where).marker
            if marker is not None and marker.type is ControlType.ABORT:
                producers.discard(header.producer_id)
        of_aborted = header.transactional and header.producer_id in producers
        yield CommittedBatch(header, data, of_aborted and not header.control)


def fetch_request(
    partition: TopicPartition,
    position: int,
    size: int,
    isolation: int,
    *,
    wait_ms: int = WAIT_MS,
    epoch: int = NO_EPOCH,
    leader_epoch: int = NO_EPOCH,
    topic_id: UUID | None = None,
) -> Any:
    """The request of a consumer for one partition; *epoch* is that of the offset before."""
    from kafka.protocol.consumer import FetchRequest

    topic_class = FetchRequest.FetchTopic
    wanted = topic_class.FetchPartition(
        partition=partition.partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=position,
        last_fetched_epoch=epoch,
        partition_max_bytes=size,
    )
    return FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=size,
        isolation_level=isolation,
        session_epoch=NO_SESSION,
        topics=[topic_class(topic=partition.topic, topic_id=topic_id, partitions=[wanted])],
    )
