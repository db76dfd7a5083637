"""Reads raw record batches of any replica, leader or not, by Fetch with replica id -3.

A future local replica (-3) reads from log start to log end, past the high watermark, and gets the
batches as they are on disk (FetchParams.isFromFuture, Partition.readRecords). Fetch versions before
13 name topics, so no topic id is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    EvidenceChanged,
    MalformedMessage,
    TimedOut,
)
from breakglass.services.kafka.replicas.list_offsets import (
    FETCH_VERSION,
    FUTURE_REPLICA,
    LATEST,
    LEADER_ONLY,
    NO_SESSION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    KAFKA_STORAGE_ERROR,
    OFFSET_MOVED_TO_TIERED_STORAGE,
    OFFSET_OUT_OF_RANGE,
    cluster_error,
    describe_error,
    retriable,
)
from breakglass.services.kafka.wire.deadline import NEVER, Deadline, until
from breakglass.services.kafka.wire.frames import MAX_FRAME_BYTES
from breakglass.services.kafka.wire.memory import read_large_batches
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import BatchHeader, Fetched, read_headers

CHUNK_BYTES = 1024 * 1024
"""Bytes that one request asks for; a larger batch still comes whole."""


class Aborted(NamedTuple):
    """A transaction that was aborted."""

    producer_id: int
    first_offset: int


class _Told(NamedTuple):
    data: bytes
    aborted: tuple[Aborted, ...]


@dataclass(frozen=True, slots=True)
class BatchChunk:
    """Some batches of a log, whole."""

    data: bytes
    headers: tuple[BatchHeader, ...]
    """Headers of the batches in *data* that overlap the wanted stretch, by offset."""
    aborted: tuple[Aborted, ...] = ()
    """Aborted transactions among the batches; brokers name them only to read_committed readers."""


@dataclass(frozen=True, slots=True)
class ReplicaRecords:
    """One broker's log of one partition."""

    sender: Sender
    broker: int
    partition: TopicPartition
    chunk_bytes: int = CHUNK_BYTES
    request_seconds: float = patience.CHUNK
    go_on: Callable[[], None] = lambda: None
    """Called before each request; an exception that it raises ends the reading."""
    committed: bool = False
    """Read as a read_committed consumer: from the leader, up to the last stable offset."""
    deadline: Deadline = NEVER
    """For the whole reading, beside what each request has."""

    def __post_init__(self) -> None:
        read_large_batches()

    @property
    def where(self) -> str:
        return f"{self.partition} on b{self.broker}"

    def chunks(self, start: int, end: int) -> Iterator[BatchChunk]:
        """The batches that hold offsets of ``[start, end)``, one chunk in memory at a time.

        The first and the last batch may reach beyond. Offsets that compaction removed are
        simply not there.

        Raises:
            EvidenceChanged: the log no longer has these offsets.
            NotAuthorized: READ on the topic is missing.
            ClusterError: the broker cannot read its log.
            MalformedMessage: the bytes are not batches of message format 2.
            Unreachable: no answer in time, or the broker throttles us for longer.
        """
        position, size = start, self.chunk_bytes
        while position < end:
            data, aborted = self._records(position, size)
            fetched = read_headers(data, self.where)
            wanted = [header for header in fetched.headers if position < header.next_offset]
            held = tuple([header for header in wanted if header.base_offset < end])
            if held:
                yield BatchChunk(data, held, aborted)
                position, size = held[-1].next_offset, self.chunk_bytes
            if len(held) < len(wanted):
                return
            if not held:
                size = self._larger(fetched, size)
                if size == 0:
                    return self._require_end(end)

    def fetch(self, position: int, size: int) -> bytes:
        """The broker's answer to a Fetch of *size* bytes from the offset *position* on.

        The first batch contains that offset or follows it; the last batch may be cut off. Raises
        as `chunks`.
        """
        return self._records(position, size).data

    def _larger(self, fetched: Fetched, size: int) -> int:
        """How much to ask for so that a cut-off batch comes whole; 0 if no bytes came."""
        if fetched.headers:
            raise MalformedMessage(
                f"{self.where}: the broker answers with older offsets than it was asked for; check "
                "its log segments with kafka-dump-log.sh"
            )
        if not fetched.cut_bytes:
            return 0
        needed = max(fetched.cut_batch or 0, 2 * size)
        if needed > MAX_FRAME_BYTES:
            raise MalformedMessage(
                f"{self.where}: a batch claims {needed:,} bytes, more than brokers accept; check "
                "its log segments with kafka-dump-log.sh"
            )
        return needed

    def _require_end(self, end: int) -> None:
        """Check that the log still reaches *end* if no batch follows: else it was truncated."""
        deadline = self.deadline.half().sooner(self.request_seconds)
        told = list_offsets(self.sender, self.broker, [self.partition], LATEST, deadline)
        answer = told[self.partition]
        if isinstance(answer, OffsetError):
            raise ClusterError(f"{self.where}: {answer.reason}; read the cluster again")
        if answer.offset < end:
            raise self._moved(f"it ends at {answer.offset}, and not at {end} or later")

    def _records(self, position: int, size: int) -> _Told:
        deadline = self.deadline.half().sooner(self.request_seconds)
        return until(deadline, lambda: self._ask(position, size, deadline))

    def _ask(self, position: int, size: int, deadline: Deadline) -> _Told:
        from breakglass.services.kafka.wire.messages.reading import FetchRequest, FetchResponse

        self.go_on()
        topic_class = FetchRequest.FetchTopic
        wanted = topic_class.FetchPartition(
            partition=self.partition.partition, fetch_offset=position, partition_max_bytes=size
        )
        request = FetchRequest(
            replica_id=LEADER_ONLY if self.committed else FUTURE_REPLICA,
            isolation_level=READ_COMMITTED if self.committed else READ_UNCOMMITTED,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=size,
            session_epoch=NO_SESSION,
            topics=[topic_class(topic=self.partition.topic, partitions=[wanted])],
        )
        answer = self.sender.call(
            self.broker, request, FetchResponse, deadline, max_version=FETCH_VERSION
        )
        told = [partition for topic in answer.responses for partition in topic.partitions]
        code = answer.error_code or (told[0].error_code if told else 0)
        if code:
            raise self._error(code)
        if not told:
            # A broker that throttles a client answers this way (FetchContext.getThrottledResponse).
            raise TimedOut(
                f"b{self.broker} answers without records of {self.partition}: raise the fetch "
                "quota of this client, or try again",
                "throttled",
            )
        aborted = [
            Aborted(transaction.producer_id, transaction.first_offset)
            for transaction in told[0].aborted_transactions or ()
        ]
        return _Told(bytes(told[0].records or b""), tuple(aborted))

    def _error(self, code: int) -> BreakglassError:
        if code == OFFSET_OUT_OF_RANGE:
            return self._moved("it no longer holds the offset asked for")
        if code == OFFSET_MOVED_TO_TIERED_STORAGE:
            return self._moved("that part is in remote storage now")
        if code == KAFKA_STORAGE_ERROR:
            return ClusterError(
                f"the log directory of {self.where} is offline: repair it, then read again"
            )
        if retriable(code) and code not in AUTHORIZATION_CODES:
            reason = describe_error(code)
            return TimedOut(f"{self.where} cannot be read now ({reason}): try again", reason)
        return cluster_error(code, f"reading {self.where}", f"READ on topic {self.partition.topic}")

    def _moved(self, how: str) -> EvidenceChanged:
        return EvidenceChanged(
            f"the log of {self.where} changed while it was read: {how}; read it again"
        )
