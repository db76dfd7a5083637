"""Batches as a live broker sends them, decoded equal to what librdkafka made of them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.wire import Conversation
from breakglass.services.topic_backup.batch_header import read_headers
from breakglass.services.topic_backup.batches import (
    ControlType,
    RecordBatch,
)
from breakglass.services.topic_backup.compression import Compression
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import Record, TimestampType
from breakglass.services.topic_backup.topic_writer import TopicWriter
from tests.kit.batches import decode_batches
from tests.kit.waiting import DEADLINE_SECONDS

LOG = logging.getLogger(__name__)
SECONDS = DEADLINE_SECONDS
FETCH_BYTES = 20_000
"""Little enough that most answers end within a batch."""
TYPES = {
    TIMESTAMP_CREATE_TIME: TimestampType.CREATE,
    TIMESTAMP_LOG_APPEND_TIME: TimestampType.LOG_APPEND,
}

Values = Mapping[str, Any]


def shapes(count: int) -> Iterator[Values]:
    """What to produce: null, empty and long, headers with duplicates and nulls."""
    for number in range(count):
        yield {
            "key": (None, b"", f"key-{number}".encode())[number % 3],
            "value": (None, b"", b"v" * (number % 7 * 500), bytes(range(256)))[number % 4],
            "headers": [
                [],
                [("a", b"1"), ("b", None), ("a", b"2")],
                [("", b""), ("schlüssel", b"\xff")],
            ][number % 3],
            "timestamp": 1_700_000_000_000 + number * 1000,
        }


@pytest.fixture
def topic() -> str:
    """The name for a topic of this test's own."""
    return f"live-{uuid.uuid4().hex[:8]}"


def make(cluster: Cluster, topic: str, settings: Mapping[str, str] | None = None) -> None:
    """Create *topic* with one partition, led by b1."""
    # The records bear times long past, which retention would take for a reason to delete them.
    create_topic(cluster, topic, [[1, 2, 3]], {"retention.ms": "-1", **(settings or {})})


def producer(cluster: Cluster, **settings: Any) -> Producer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer(
        {"bootstrap.servers": cluster.lab_bootstrap, "linger.ms": 50, **given}, logger=LOG
    )


def produce(client: Producer, topic: str, values: Iterator[Values]) -> None:
    failed: list[object] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        client.produce(topic, partition=0, on_delivery=delivered, **value)
    assert client.flush(SECONDS) == 0
    assert failed == []


def consumed(cluster: Cluster, topic: str) -> list[Record]:
    """Every data record of the partition, committed or not, by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.lab_bootstrap,
            "group.id": "live-batches",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        },
        logger=LOG,
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return list(_until_end(consumer))
    finally:
        consumer.close()


def _until_end(consumer: Consumer) -> Iterator[Record]:
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None, "the consumer got nothing more"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            return
        yield _record(message)


def _record(message: Message) -> Record:
    offset = message.offset()
    assert offset is not None
    kind, stamp = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    named = tuple((key.encode(), value) for key, value in headers)
    key, value = message.key(), message.value()
    return Record(offset, TYPES[kind], stamp, key, value, named)


def fetched(cluster: Cluster, topic: str, *, max_bytes: int = FETCH_BYTES) -> list[RecordBatch]:
    """Every batch of the partition, fetched bit by bit from its leader's raw log."""
    end = log_end(cluster, topic)
    address = cluster.node(1).address(Listener.LAB)
    batches: list[RecordBatch] = []
    with Conversation(address, SECONDS) as node:
        while (offset := batches[-1].header.next_offset if batches else 0) < end:
            data = _fetch(node, cluster, topic, offset, max_bytes)
            before = len(batches)
            batches += decode_batches(data, "b1")
            cut = read_headers(data, "b1").cut_batch
            max_bytes = max(max_bytes, cut or 0)
            assert len(batches) > before or cut
    return batches


def log_end(cluster: Cluster, topic: str) -> int:
    """The log end offset of the partition on its leader."""
    return cluster.read(lambda node: _end(node, topic), via=1)


def _end(node: Conversation, topic: str) -> int:
    from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

    topic_class = ListOffsetsRequest.ListOffsetsTopic
    asked = topic_class.ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-2, isolation_level=0, topics=[topic_class(name=topic, partitions=[asked])]
    )
    answer = node.ask(request, ListOffsetsResponse)
    return int(answer.topics[0].partitions[0].offset)


def _fetch(node: Conversation, cluster: Cluster, topic: str, offset: int, max_bytes: int) -> bytes:
    from kafka.protocol.consumer import FetchRequest, FetchResponse

    topic_class = FetchRequest.FetchTopic
    wanted = topic_class.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    topic_id = cluster.partition(topic, 0).topic_id
    asked = topic_class(topic=topic, topic_id=topic_id, partitions=[wanted])
    request = FetchRequest(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=2**20, topics=[asked]
    )
    answer = node.ask(request, FetchResponse)
    partition = answer.responses[0].partitions[0]
    assert partition.error_code == 0
    return bytes(partition.records)


def data_records(batches: list[RecordBatch]) -> list[Record]:
    return [record for batch in batches if not batch.header.control for record in batch.records]


@pytest.mark.parametrize("codec", Compression)
def test_batches_a_producer_compressed(
    three_brokers: Cluster, topic: str, codec: Compression
) -> None:
    make(three_brokers, topic)
    client = producer(three_brokers, compression_type=codec.name.lower())
    produce(client, topic, shapes(300))
    batches = fetched(three_brokers, topic)
    assert {batch.header.compression for batch in batches} == {codec}
    assert data_records(batches) == consumed(three_brokers, topic)
    epoch = three_brokers.partition(topic, 0).leader_epoch
    assert {batch.header.leader_epoch for batch in batches} == {epoch}


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_batches_a_broker_compressed_anew(
    three_brokers: Cluster, topic: str, codec: Compression
) -> None:
    """By Java's codecs, whose framing differs from librdkafka's."""
    name = codec.name.lower()
    make(three_brokers, topic, {"compression.type": name})
    produce(producer(three_brokers), topic, shapes(300))
    batches = fetched(three_brokers, topic)
    assert {batch.header.compression for batch in batches} == {codec}
    assert data_records(batches) == consumed(three_brokers, topic)


def test_batches_under_log_append_time(three_brokers: Cluster, topic: str) -> None:
    make(three_brokers, topic, {"message.timestamp.type": "LogAppendTime"})
    produce(producer(three_brokers), topic, shapes(50))
    records = data_records(fetched(three_brokers, topic))
    assert records == consumed(three_brokers, topic)
    assert {record.timestamp_type for record in records} == {TimestampType.LOG_APPEND}


def test_transactions_with_their_markers(three_brokers: Cluster, topic: str) -> None:
    make(three_brokers, topic)
    client = producer(three_brokers, transactional_id=topic)
    client.init_transactions(SECONDS)
    for ending in (client.commit_transaction, client.abort_transaction):
        client.begin_transaction()
        produce(client, topic, shapes(5))
        ending(SECONDS)
    # Markers are written after the coordinator has answered.
    three_brokers.wait_until(lambda: log_end(three_brokers, topic) == 12, "both markers")
    batches = fetched(three_brokers, topic)
    assert data_records(batches) == consumed(three_brokers, topic)
    assert all(batch.header.transactional for batch in batches)
    assert len({batch.header.producer_id for batch in batches} - {-1}) == 1
    markers = [batch.marker.type for batch in batches if batch.marker is not None]
    assert markers == [ControlType.COMMIT, ControlType.ABORT]
    first = batches[0].header
    assert [first.sequence(first.base_offset + number) for number in range(2)] == [0, 1]


def test_a_partition_taken_from_a_live_broker_reads_back_equal(
    three_brokers: Cluster, topic: str, tmp_path: Path
) -> None:
    make(three_brokers, topic)
    produce(producer(three_brokers, compression_type="zstd"), topic, shapes(500))
    with TopicWriter(tmp_path, TopicIdentity(topic), max_segment_bytes=50_000) as writer:
        for batch in fetched(three_brokers, topic):
            writer.partition(0).append_batch(batch)
        manifest = writer.commit()
    reader = PartitionReader(LocalFolder(tmp_path / topic), 0, manifest.partition(0))
    assert list(reader.records()) == consumed(three_brokers, topic)
    assert manifest.partitions[0].next_offset == 500
