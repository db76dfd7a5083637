"""Writes records that differ from each other, and reports exactly which were acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Address, Listener
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import PartitionState, TopicPartition

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())

PRODUCE_SECONDS = 120.0
GRACE_SECONDS = 1.0
"""librdkafka gives a record up at its timeout; the report of that comes a little later."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the records look like: keys ``label-start``, ``label-(start+1)``, ...

    A value is ``label-n@topic-partition``, filled with dots up to *value_bytes*.
    """

    label: str = "r"
    start: int = 0
    value_bytes: int = 0
    per_batch: int | None = None
    """Close a batch after so many records; None leaves it to librdkafka."""
    timestamp_ms: int | None = None
    """None: the time of writing."""


@dataclass(frozen=True, slots=True)
class AckedRecord:
    """A record that the leader acknowledged."""

    offset: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Produced:
    """What became of the records for one partition."""

    partition: TopicPartition
    acks: str
    acked: tuple[AckedRecord, ...]
    """By offset. With acks=0 nothing is ever acknowledged, and this is empty."""
    failed: int
    """Records that were given up; some of them may be in the log all the same."""

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(record.offset for record in self.acked)

    @property
    def end(self) -> int | None:
        """One past the last acknowledged offset; None when there is none."""
        return self.acked[-1].offset + 1 if self.acked else None


def produce(
    cluster: Cluster,
    topic: str,
    partition: int,
    count: int,
    *,
    acks: str = "all",
    pattern: Pattern | None = None,
    must_succeed: bool = True,
    timeout: float = PRODUCE_SECONDS,
) -> Produced:
    """Write *count* records to one partition, by the lab's own listeners.

    *acks* is ``all``, ``1`` or ``0``.

    Raises:
        LabError: a record was not acknowledged within *timeout* seconds and *must_succeed*.
    """
    target = TopicPartition(topic, partition)
    written = produce_each(
        cluster,
        {target: count},
        acks=acks,
        pattern=pattern,
        must_succeed=must_succeed,
        timeout=timeout,
    )
    return written[target]


def produce_each(
    cluster: Cluster,
    counts: Mapping[TopicPartition, int],
    *,
    acks: str = "all",
    pattern: Pattern | None = None,
    must_succeed: bool = True,
    timeout: float = PRODUCE_SECONDS,
) -> dict[TopicPartition, Produced]:
    """`produce` for many partitions with one producer.

    Raises:
        LabError: a record was not acknowledged within *timeout* seconds and *must_succeed*.
    """
    from confluent_kafka import Producer

    reports = _Reports(counts)
    producer = Producer(
        {
            "bootstrap.servers": cluster.lab_bootstrap,
            "acks": acks,
            "enable.idempotence": acks == "all",
            "message.timeout.ms": int(timeout * 1000),
            "linger.ms": 5,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "retry.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "queue.buffering.max.messages": 1_000_000,
        },
        logger=logger,
    )
    shape = pattern or Pattern()
    for partition, count in counts.items():
        for number, (key, value) in enumerate(_records(partition, count, shape), start=1):
            producer.produce(
                partition.topic,
                partition=partition.partition,
                key=key,
                value=value,
                timestamp=shape.timestamp_ms or 0,
                on_delivery=reports.delivered,
            )
            producer.poll(0)
            if shape.per_batch and number % shape.per_batch == 0:
                producer.flush(timeout)
    producer.flush(timeout + GRACE_SECONDS)
    produced = {partition: reports.of(partition, acks) for partition in counts}
    failed = sum(one.failed for one in produced.values())
    if failed and must_succeed:
        raise LabError(
            f"{failed} of {sum(counts.values())} records were not acknowledged "
            f"({reports.first_failure}): check that the partitions have leaders."
        )
    return produced


class _Reports:
    def __init__(self, counts: Mapping[TopicPartition, int]) -> None:
        self._counts = counts
        self._acked: dict[TopicPartition, list[AckedRecord]] = {count: [] for count in counts}
        self._unacked_successes: dict[TopicPartition, int] = dict.fromkeys(counts, 0)
        self.first_failure = "no answer"

    def delivered(self, error: Any, message: Any) -> None:
        partition = TopicPartition(message.topic(), message.partition())
        if error is not None:
            self.first_failure = str(error)
        elif message.offset() is None or message.offset() < 0:
            self._unacked_successes[partition] += 1
        else:
            record = AckedRecord(message.offset(), message.key(), message.value())
            self._acked[partition].append(record)

    def of(self, partition: TopicPartition, acks: str) -> Produced:
        acked = sorted(self._acked[partition], key=lambda record: record.offset)
        done = len(acked) + self._unacked_successes[partition]
        return Produced(partition, acks, tuple(acked), self._counts[partition] - done)


def _records(
    partition: TopicPartition, count: int, pattern: Pattern
) -> Iterator[tuple[bytes, bytes]]:
    for number in range(pattern.start, pattern.start + count):
        key = f"{pattern.label}-{number}"
        value = f"{key}@{partition}".ljust(pattern.value_bytes, ".")
        yield key.encode(), value.encode()


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
    from kafka.record.default_records import DefaultRecordBatchBuilder

    records = [f"r-{number}".encode() for number in range(start, start + count)]
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
    batch = bytes(builder.build())
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
    from kafka.protocol.producer import ProduceRequest, ProduceResponse

    by_id = {state.topic_id: state.partition.topic for state in led}
    with Conversation(leader, BULK_SECONDS) as node:
        topic_class = ProduceRequest.TopicProduceData
        answer = node.ask(
            ProduceRequest(
                acks=ALL_IN_SYNC,
                timeout_ms=int(BULK_SECONDS * 1000),
                topic_data=[
                    topic_class(
                        name=name,
                        topic_id=topic_id,
                        partition_data=[
                            topic_class.PartitionProduceData(
                                index=state.partition.partition, records=batch
                            )
                            for state in some
                        ],
                    )
                    for (name, topic_id), some in groupby(
                        led, lambda state: (state.partition.topic, state.topic_id)
                    )
                ],
            ),
            ProduceResponse,
        )
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
