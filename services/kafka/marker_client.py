"""What an armed session can write for a checkpoint: one small record into each of its partitions.

All partitions of one broker are written by one request: librdkafka takes one for each (H14).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import Unreachable
from breakglass.services.kafka.topic_client import TopicClient
from breakglass.services.kafka.wire.broker_errors import cluster_error, retriable
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import PartitionState, TopicPartition

ALL_IN_SYNC = -1
MAGIC = 2
BATCH_BYTES = 1024 * 1024

Header = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Small:
    """A record to be written."""

    key: bytes
    """Never null: a compacted topic refuses that. Never the same twice, where it is to stay."""
    value: bytes
    headers: Sequence[Header] = ()


class MarkerClient:
    """Writes records whose loss or doubling is harmless; constructed only in armed sessions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.topics = TopicClient(sender)

    def write(
        self, states: Iterable[PartitionState], record: Small, deadline: Deadline
    ) -> dict[TopicPartition, int]:
        """Put *record* into each partition, in sync everywhere; its offset in those that took it.

        Those that did not answer, or have no leader now, are left out: write it again.

        Raises:
            NotAuthorized, ClusterError: a partition refuses for good.
        """
        led = sorted((one for one in states if one.leader is not None), key=_order)
        batch = _batch(record)
        written: dict[TopicPartition, int] = {}
        for leader, some in groupby(led, key=attrgetter("leader")):
            written |= self._ask(leader, list(some), batch, deadline)
        return written

    def _ask(
        self, leader: int, led: Sequence[PartitionState], batch: bytes, deadline: Deadline
    ) -> dict[TopicPartition, int]:
        from kafka.protocol.producer import ProduceResponse

        request = _request(led, batch, deadline)
        try:
            answer = self._sender.call(leader, request, ProduceResponse, deadline)
        except Unreachable:
            return {}
        names = {one.topic_id: one.partition.topic for one in led}
        return _written(answer, names)


def _written(answer: Any, names: Mapping[Any, str]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic in answer.responses:
        name = topic.name or names[topic.topic_id]
        for one in topic.partition_responses:
            if one.error_code == 0:
                found[TopicPartition(name, one.index)] = one.base_offset
            elif not retriable(one.error_code):
                raise cluster_error(
                    one.error_code, f"writing into {name}-{one.index}", f"WRITE on topic {name}"
                )
    return found


def _order(one: PartitionState) -> tuple[int, TopicPartition]:
    return one.leader or 0, one.partition


def _request(led: Sequence[PartitionState], batch: bytes, deadline: Deadline) -> Any:
    from kafka.protocol.producer import ProduceRequest

    topic_class = ProduceRequest.TopicProduceData
    data_class = topic_class.PartitionProduceData
    by_topic = groupby(led, lambda one: (one.partition.topic, one.topic_id))
    return ProduceRequest(
        acks=ALL_IN_SYNC,
        timeout_ms=max(1, int(deadline.remaining() * 1000)),
        topic_data=[
            topic_class(
                name=name,
                topic_id=topic_id,
                partition_data=[
                    data_class(index=one.partition.partition, records=batch) for one in some
                ],
            )
            for (name, topic_id), some in by_topic
        ],
    )


def _batch(record: Small) -> bytes:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=BATCH_BYTES,
    )
    builder.append(0, now_ms(), record.key, record.value, list(record.headers))
    return bytes(builder.build())
