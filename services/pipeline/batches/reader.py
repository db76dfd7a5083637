"""Reads the committed batches of a partition from its leader, and follows leader changes.

The reader sends Fetch requests as a consumer, the next request while the caller uses the last
response. Brokers that support topic ids get the id, so that another topic of the same name is not
read. Each request has the epoch that was read last, so that the reader notices a truncated log.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import (
    LogBeginsLater,
    LogTruncated,
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
from breakglass.services.kafka.wire.api_keys import FETCH
from breakglass.services.kafka.wire.broker_errors import (
    OFFSET_OUT_OF_RANGE,
    cluster_error,
    describe_error,
    retriable,
)
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.batches.answer import (
    FIRST_VERSION,
    FLEXIBLE_VERSION,
    TOPIC_ID_VERSION,
    FetchAnswer,
)
from breakglass.services.pipeline.batches.converting import FetchedBatches

CONSUMER = -1
READ_COMMITTED = 1
NO_SESSION = -1
NO_EPOCH = -1
CHUNK_BYTES = 4 * 1024 * 1024
"""Size of a response; the connection needs the same memory again for the next response."""
WAIT_MS = 500
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

    @property
    def where(self) -> str:
        """The partition as messages name it."""
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
                fetched = self._batches(coming.result())
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

    def _batches(self, answer: FetchAnswer) -> FetchedBatches:
        number = self.partition.partition
        return FetchedBatches(number, answer.records, answer.aborted, self.where)

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
            self._request(position, epoch, size),
            FetchAnswer,
            deadline,
            lane=LANE,
            max_version=version,
        )
        self._require_no_error(answer, position, deadline)
        if answer.diverged is not None:
            raise LogTruncated(
                f"{self.where} was cut back to offset {answer.diverged[1]:,} of leader epoch "
                f"{answer.diverged[0]} while it was read up to offset {position:,}: run this again"
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

    def _require_no_error(self, answer: FetchAnswer, position: int, deadline: Deadline) -> None:
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

    def _request(self, position: int, epoch: int, size: int) -> Any:
        from kafka.protocol.consumer import FetchRequest

        topic_class = FetchRequest.FetchTopic
        wanted = topic_class.FetchPartition(
            partition=self.partition.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=position,
            last_fetched_epoch=epoch,
            partition_max_bytes=size,
        )
        topic = topic_class(topic=self.partition.topic, topic_id=self.topic_id, partitions=[wanted])
        return FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=READ_COMMITTED,
            session_epoch=NO_SESSION,
            topics=[topic],
        )
