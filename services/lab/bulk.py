"""Writes to thousands of partitions with one request for each leader.

librdkafka sends a request for each partition, each of which makes the followers fetch all
partitions again. That takes minutes, where one request with all partitions takes a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Address, Listener
from breakglass.services.lab.produce import AckedRecord, Produced
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import PartitionState, TopicPartition

ALL_IN_SYNC = -1
NOT_LEADER = 6
"""A broker is in the metadata before it has made all the logs it is to lead."""
BULK_SECONDS = 120.0
"""Making a log costs several fsyncs: thousands take a slow disk minutes."""
MAGIC = 2
BATCH_BYTES = 1 << 20


def produce_bulk(
    cluster: Cluster, states: Sequence[PartitionState], count: int, *, start: int = 0
) -> dict[TopicPartition, Produced]:
    """Write the same *count* records to every partition with acks=all.

    Keys are ``r-start``, ``r-(start+1)``, ...; values repeat them.

    Raises:
        LabError: a partition has no leader, or a write was refused.
    """
    records = [f"r-{number}".encode() for number in range(start, start + count)]
    batch = _batch(records)
    written: dict[TopicPartition, Produced] = {}

    def everywhere() -> bool:
        missing = [state for state in states if state.partition not in written]
        for leader, led in _by_leader(missing):
            offsets = _write(cluster.broker(leader).address(Listener.LAB), led, batch)
            for partition, offset in offsets.items():
                acked = [AckedRecord(offset + at, one, one) for at, one in enumerate(records)]
                written[partition] = Produced(partition, "all", tuple(acked), failed=0)
        return len(written) == len(states)

    cluster.wait_until(everywhere, "every partition to take its records", timeout=BULK_SECONDS)
    return written


def _by_leader(states: Iterable[PartitionState]) -> Iterator[tuple[int, list[PartitionState]]]:
    for state in states:
        if state.offline:
            raise LabError(f"{state.partition} has no leader to write to: write before it is lost.")
    ordered = sorted(states, key=lambda state: (state.leader or 0, state.partition))
    for leader, led in groupby(ordered, key=lambda state: state.leader or 0):
        yield leader, list(led)


def _write(
    leader: Address, led: Sequence[PartitionState], batch: bytes
) -> dict[TopicPartition, int]:
    """The offset of the first record, by partition; without those to be tried again."""
    from kafka.protocol.producer import ProduceResponse

    by_id = {state.topic_id: state.partition.topic for state in led}
    with Conversation(leader, BULK_SECONDS) as node:
        answer = node.ask(_request(led, batch), ProduceResponse)
    offsets: dict[TopicPartition, int] = {}
    for topic in answer.responses:
        name = topic.name or by_id[topic.topic_id]
        for response in topic.partition_responses:
            if response.error_code == 0:
                offsets[TopicPartition(name, response.index)] = response.base_offset
            elif response.error_code != NOT_LEADER:
                raise LabError(
                    f"{name}-{response.index} took no records (error {response.error_code})."
                )
    return offsets


def _request(led: Sequence[PartitionState], batch: bytes) -> Any:
    from kafka.protocol.producer import ProduceRequest

    topic_class = ProduceRequest.TopicProduceData
    return ProduceRequest(
        acks=ALL_IN_SYNC,
        timeout_ms=int(BULK_SECONDS * 1000),
        topic_data=[
            topic_class(
                name=name,
                topic_id=topic_id,
                partition_data=[
                    topic_class.PartitionProduceData(index=state.partition.partition, records=batch)
                    for state in some
                ],
            )
            for (name, topic_id), some in groupby(
                led, lambda state: (state.partition.topic, state.topic_id)
            )
        ],
    )


def _batch(records: Sequence[bytes]) -> bytes:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    now = now_ms()
    builder = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=BATCH_BYTES,
    )
    for number, record in enumerate(records):
        if builder.append(number, now, record, record, []) is None:
            raise LabError(f"{len(records)} records are more than one batch takes: write fewer.")
    return bytes(builder.build())
