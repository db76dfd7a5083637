"""The clients that write markers: one record into each partition, and the end of a transaction.

One request writes to all partitions of a broker; librdkafka sends a request per partition (H14).

A leader accepts the marker of a transaction from any client with ALTER on CLUSTER, if neither the
producer epoch nor the coordinator epoch is below the partition's last of that producer (tried on
3.9.2 and 4.3.1; ProducerAppendInfo.appendEndTxnMarker). It also accepts a coordinator epoch above
the true one, and would then fence the true coordinator: send the epoch of the coordinator's own
marker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import Unreachable
from breakglass.services.kafka.admin_client import TopicClient
from breakglass.services.kafka.replicas.list_offsets import ask_brokers, by_leader
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    cluster_error,
    describe_error,
    retriable,
)
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
    """Never null: a compacted topic refuses a null key. Unique if compaction must keep the record.
    """
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
        """Write *record* to each partition with acks=all; its offset in each that accepted it.

        Partitions that did not answer, or have no leader, are left out: write to them again.

        Raises NotAuthorized, ClusterError: a partition refuses for good.
        """
        from kafka.protocol.producer import ProduceResponse

        known = {state.partition: state for state in states}
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
        batch = bytes(builder.build())

        def ask(leader: int, led: Collection[TopicPartition]) -> dict[TopicPartition, int]:
            there = [known[partition] for partition in sorted(led)]
            request = _produce_request(there, batch, deadline)
            answer = self._sender.call(leader, request, ProduceResponse, deadline)
            return _written(answer, {state.topic_id: state.partition.topic for state in there})

        written: dict[TopicPartition, int] = {}
        for partition, offset in ask_brokers(by_leader(known.values()), ask).items():
            if isinstance(offset, int):
                written[partition] = offset
            elif not isinstance(offset.error, Unreachable):
                raise offset.error
        return written


def _written(answer: Any, names: Mapping[Any, str]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic in answer.responses:
        name = topic.name or names[topic.topic_id]
        for response in topic.partition_responses:
            if response.error_code == 0:
                found[TopicPartition(name, response.index)] = response.base_offset
            elif not retriable(response.error_code):
                raise cluster_error(
                    response.error_code,
                    f"writing into {name}-{response.index}",
                    f"WRITE on topic {name}",
                )
    return found


def _produce_request(led: Sequence[PartitionState], batch: bytes, deadline: Deadline) -> Any:
    from kafka.protocol.producer import ProduceRequest

    topic_class = ProduceRequest.TopicProduceData
    data_class = topic_class.PartitionProduceData
    by_topic = groupby(led, lambda state: (state.partition.topic, state.topic_id))
    return ProduceRequest(
        acks=ALL_IN_SYNC,
        timeout_ms=max(1, int(deadline.remaining() * 1000)),
        topic_data=[
            topic_class(
                name=name,
                topic_id=topic_id,
                partition_data=[
                    data_class(index=state.partition.partition, records=batch) for state in some
                ],
            )
            for (name, topic_id), some in by_topic
        ],
    )


NOT_ENOUGH_REPLICAS = 19
COORDINATOR_FENCED = 52
UNKNOWN_SERVER_ERROR = -1


@dataclass(frozen=True, slots=True)
class EndMarker:
    """The end of one producer's transaction, as its coordinator wrote it or would write it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool

    @property
    def word(self) -> str:
        return "commit" if self.commit else "abort"


class TransactionEndClient:
    """Writes markers, one partition at a time; constructed only in armed sessions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def end(
        self, leader: int, partition: TopicPartition, marker: EndMarker, deadline: Deadline
    ) -> str:
        """Make *leader* append *marker* to *partition*; an error in words, "" for done.

        Raises:
            Unreachable: the leader could not be connected to; nothing was sent.
            OutcomeUnknown: no answer; the marker may or may not have been written.
        """
        from breakglass.services.kafka.wire.messages.other import VERSION, WriteTxnMarkersResponse

        answer = self._sender.change(
            leader,
            _markers_request(partition, marker),
            WriteTxnMarkersResponse,
            deadline,
            f"writing the {marker.word} marker of producer {marker.producer_id} to {partition}",
            "run `breakglass after transactions list` to see whether it is still open",
            max_version=VERSION,
        )
        codes = [
            told.error_code
            for one in answer.markers
            if one.producer_id == marker.producer_id
            for topic in one.topics
            if topic.name == partition.topic
            for told in topic.partitions
            if told.partition_index == partition.partition
        ]
        return _refusal_words(codes[0]) if codes else "left out of the answer"


def _markers_request(partition: TopicPartition, marker: EndMarker) -> Any:
    from breakglass.services.kafka.wire.messages.other import WriteTxnMarkersRequest

    marker_class = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker_class.WritableTxnMarkerTopic(
        name=partition.topic, partition_indexes=[partition.partition]
    )
    return WriteTxnMarkersRequest(
        markers=[
            marker_class(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                topics=[topic],
                coordinator_epoch=marker.coordinator_epoch,
            )
        ]
    )


def _refusal_words(code: int) -> str:
    if code in AUTHORIZATION_CODES:
        return "not allowed: needs ALTER on CLUSTER"
    if code == NOT_ENOUGH_REPLICAS:
        return f"{describe_error(code)}: start brokers until min.insync.replicas is met, then again"
    if code == COORDINATOR_FENCED:
        return f"{describe_error(code)}: a newer coordinator has written to it since: look again"
    if code == UNKNOWN_SERVER_ERROR:
        return f"{describe_error(code)}: the broker's log says why (a newer epoch of the producer?)"
    return describe_error(code) if code else ""
