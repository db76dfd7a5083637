"""Fake brokers that tell one story: metadata shared by all, replica logs of each.

For stories that real brokers cannot be made to tell, or not in a unit test's time. Any api of
any broker can be replaced, to be late, partial or wrong: ``cluster.brokers[2].serve(...)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListGroupsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
)

from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    DEBUGGING_REPLICA,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    PAST_EVERY_LOG,
)
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.answers import by_topic
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionState, TopicPartition
from tests.kit import fake_metadata
from tests.kit.fake_broker import FakeBroker, Respond
from tests.kit.fake_metadata import UNKNOWN_PARTITION, Story
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.kafka.replicas.replica_model import ModelReplica
from tests.unit.topic_backup.batch_bytes import sealed

OUT_OF_RANGE, NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH = 1, 6, 74, 75
NEWEST_MS = 1_700_000_000_000


@dataclass
class FakeReplica:
    """One replica as its broker tells it."""

    log: ModelReplica
    high_watermark: int | None = None
    """None: the log's end."""
    error: int = 0
    """Answered in place of everything."""
    corrupt_at: int | None = None
    """A batch that begins at this offset has a bit flipped."""

    @property
    def mark(self) -> int:
        """Never below the log's start (UnifiedLog.updateHighWatermark)."""
        mark = self.log.end if self.high_watermark is None else self.high_watermark
        return max(mark, self.log.start)


class FakeCluster:
    """Brokers 1 to *count*; a context manager that ends them."""

    def __init__(self, count: int = 3) -> None:
        self._stack = ExitStack()
        self.replicas: dict[tuple[int, TopicPartition], FakeReplica] = {}
        self.brokers = {
            broker: self._stack.enter_context(FakeBroker()) for broker in range(1, count + 1)
        }
        self.story = Story({one: broker.endpoint for one, broker in self.brokers.items()})
        for broker, fake in self.brokers.items():
            fake.serve_all(self.apis(broker))

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def hold(self, broker: int, partition: TopicPartition, *epochs: tuple[int, int]) -> FakeReplica:
        """Give *broker* a replica; *epochs* are (epoch, number of records)."""
        held = FakeReplica(ModelReplica())
        for epoch, count in epochs:
            held.log.append(epoch, count)
        self.replicas[broker, partition] = held
        return held

    def sender(self, allowed: frozenset[int] = api_keys.READ, *first: int) -> Sender:
        """A sender that bootstraps from broker 1, or from those in *first*; the caller closes it.

        The addresses of all brokers are known to it.
        """
        servers = tuple(self.brokers[number].endpoint for number in first or (1,))
        security = ClientSecurity(ConnectionSettings(servers))
        addresses = self.story.addresses
        return Sender(
            servers,
            security,
            allowed,
            client_id="tests",
            broker_addresses=addresses,
            connect_seconds=DEADLINE_SECONDS,
        )

    def client(self, *first: int) -> ReadClient:
        """A client over such a sender; the caller closes it."""
        return ReadClient(self.sender(api_keys.READ, *first))

    def apis(self, broker: int) -> dict[Any, Respond]:
        """What *broker* answers as long as nobody replaces it."""
        shared: dict[Any, Any] = {
            DescribeClusterRequest: fake_metadata.cluster,
            DescribeTopicPartitionsRequest: fake_metadata.topic_partitions,
            DescribeQuorumRequest: fake_metadata.quorum,
            ListPartitionReassignmentsRequest: fake_metadata.reassignments,
            DescribeConfigsRequest: fake_metadata.configs,
            OffsetFetchRequest: fake_metadata.committed,
        }
        return {
            **{one: partial(answer, self.story) for one, answer in shared.items()},
            ListGroupsRequest: lambda _: fake_metadata.groups(self.story, broker),
            DescribeLogDirsRequest: lambda request: self._log_dirs(broker, request),
            ListOffsetsRequest: lambda request: self._offsets(broker, request),
            FetchRequest: lambda request: self._fetch(broker, request),
        }

    def _log_dirs(self, broker: int, request: Any) -> Any:
        result = DescribeLogDirsResponse.DescribeLogDirsResult
        topic_class = result.DescribeLogDirsTopic
        asked = [
            TopicPartition(topic.topic, partition)
            for topic in request.topics
            for partition in topic.partitions
        ]

        def topic(name: str, held: list[TopicPartition]) -> Any:
            partition_class = topic_class.DescribeLogDirsPartition
            return topic_class(
                name=name,
                partitions=[
                    partition_class(
                        partition_index=partition.partition, partition_size=1_000, offset_lag=0
                    )
                    for partition in held
                ],
            )

        held = [partition for partition in asked if (broker, partition) in self.replicas]
        return DescribeLogDirsResponse(
            results=[result(log_dir="/logs", topics=by_topic(held, topic))]
        )

    def _offsets(self, broker: int, request: Any) -> Any:
        topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
        partition_class = topic_class.ListOffsetsPartitionResponse

        def one(topic: str, asked: Any) -> Any:
            partition = TopicPartition(topic, asked.partition_index)
            told = self._offset(broker, partition, request.replica_id, asked)
            return partition_class(partition_index=asked.partition_index, **told)

        return ListOffsetsResponse(
            topics=[
                topic_class(
                    name=topic.name,
                    partitions=[one(topic.name, asked) for asked in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _offset(
        self, broker: int, partition: TopicPartition, replica_id: int, asked: Any
    ) -> dict[str, int]:
        held, state = self.replicas.get((broker, partition)), self.story.states.get(partition)
        if held is None or state is None:
            return {"error_code": UNKNOWN_PARTITION}
        debugging = replica_id == DEBUGGING_REPLICA
        error = held.error or (0 if debugging else _leadership_error(state, broker, asked))
        if error:
            return {"error_code": error}
        return {"error_code": 0, **_told(held, state, asked.timestamp, debugging=debugging)}

    def _fetch(self, broker: int, request: Any) -> Any:
        topic_class = FetchResponse.FetchableTopicResponse
        return FetchResponse(
            responses=[
                topic_class(
                    topic=topic.topic,
                    partitions=[
                        _fetched(
                            self.replicas.get(
                                (broker, TopicPartition(topic.topic, partition.partition))
                            ),
                            partition,
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


def _told(
    held: FakeReplica, state: PartitionState, timestamp: int, *, debugging: bool
) -> dict[str, int]:
    log = held.log
    if timestamp == LATEST:
        offset = log.end if debugging else held.mark
        return {"offset": offset, "leader_epoch": state.leader_epoch}
    if timestamp == MAX_TIMESTAMP:
        # Deleted records are found as long as their segment is there.
        if not log.end or not log.cache:
            return {}
        return {"offset": log.end - 1, "timestamp": NEWEST_MS, "leader_epoch": log.records[-1]}
    assert timestamp == EARLIEST
    return {"offset": log.start}


def _fetched(held: FakeReplica | None, asked: Any) -> Any:
    """Where an epoch ends, for who asks past every log; else batches from the offset asked for."""
    if asked.fetch_offset == PAST_EVERY_LOG or held is None or held.error:
        return _epoch_end(held, asked)
    answer_class = FetchResponse.FetchableTopicResponse.PartitionData
    return answer_class(
        partition_index=asked.partition,
        error_code=0,
        high_watermark=held.mark,
        log_start_offset=held.log.start,
        records=b"".join(_batches(held, asked.fetch_offset)),
    )


def _batches(held: FakeReplica, offset: int) -> Iterator[bytes]:
    """One of each epoch and, before a corrupt offset, one up to there."""
    for start, end, epoch in _stretches(held):
        if offset < end:
            records = end - start
            fields = (epoch, 2, 0, 0, records - 1, NEWEST_MS, NEWEST_MS, -1, -1, -1, records)
            whole = sealed(start, records, *fields, payload=bytes(records))
            yield flipped(whole) if start == held.corrupt_at else whole


def flipped(content: bytes) -> bytes:
    """*content* with its last bit turned over."""
    return content[:-1] + bytes([content[-1] ^ 1])


def _stretches(held: FakeReplica) -> Iterator[tuple[int, int, int]]:
    start = 0
    for offset in range(1, held.log.end + 1):
        ended = offset == held.log.end or held.log.records[offset] != held.log.records[start]
        if ended or offset == held.corrupt_at:
            yield start, offset, held.log.records[start]
            start = offset


def _epoch_end(held: FakeReplica | None, asked: Any) -> Any:
    answer_class = FetchResponse.FetchableTopicResponse.PartitionData
    if held is None or held.error:
        code = UNKNOWN_PARTITION if held is None else held.error
        return answer_class(partition_index=asked.partition, error_code=code, high_watermark=-1)
    found, log_start = held.log.answer(asked.last_fetched_epoch)
    if found is None:
        return answer_class(
            partition_index=asked.partition, error_code=OUT_OF_RANGE, high_watermark=-1
        )
    return answer_class(
        partition_index=asked.partition,
        error_code=0,
        high_watermark=held.mark,
        log_start_offset=log_start,
        diverging_epoch=answer_class.EpochEndOffset(epoch=found.epoch, end_offset=found.end),
    )


def _leadership_error(state: PartitionState, broker: int, asked: Any) -> int:
    """As a broker answers one who wants its leader (Partition.checkCurrentLeaderEpoch)."""
    if asked.current_leader_epoch not in (-1, state.leader_epoch):
        return FENCED_EPOCH if asked.current_leader_epoch < state.leader_epoch else UNKNOWN_EPOCH
    return 0 if state.leader == broker else NOT_LEADER


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """The first *count* partitions of *topic*."""
    return [TopicPartition(topic, number) for number in range(count)]


def without(answer: Any, left_out: Iterable[TopicPartition]) -> Any:
    """*answer* of ListOffsets or Fetch, less some partitions."""
    gone = set(left_out)
    for topic in getattr(answer, "responses", None) or answer.topics:
        name = topic.topic if isinstance(answer, FetchResponse) else topic.name
        topic.partitions = [
            partition
            for partition in topic.partitions
            if TopicPartition(name, partition.partition_index) not in gone
        ]
    return answer
